# The container that holds a pod's namespaces: it only has to sleep.
FROM scratch
COPY busybox /bin/busybox
ENTRYPOINT ["/bin/busybox", "sleep", "2147483647"]
