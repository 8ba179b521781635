#!/bin/sh
# sbom.sh NAME VERSION TREE [PACKAGE...]: an SPDX list of what an image is made of, as JSON: the Debian packages that own the
# files of TREE (with no TREE, "-": all that are installed), the packages named, and the wheels pinned in the file
# $WHEELS (lines "name==version"). SOURCE_DATE_EPOCH sets the time that it names.
set -eu
name=$1 version=$2 tree=$3
shift 3
if [ "$tree" = - ]; then
  packages=$(dpkg-query -W -f '${Package}\n')
else
  # A library's path may be that of a link: dpkg knows /usr/lib/… and /lib/… by different names.
  packages=$(find "$tree" -type f | sed "s|^$tree||" | while read -r path; do
    owner=$(dpkg -S "$path" "/usr$path" "${path#/usr}" 2>/dev/null | sed 's/:.*//; s/,.*//')
    # Our own files belong to no package; a library that does not would be missing here unseen.
    case $owner$path in
      /*.so | /*.so.*) echo "sbom.sh: no package owns $path" >&2; exit 1 ;;
    esac
    echo "$owner"
  done)
fi
packages=$(printf '%s\n' "$packages" "$@" | sed '/^$/d' | sort -u)
{
  # shellcheck disable=SC2086
  dpkg-query -W -f 'deb ${Package} ${Version} ${Architecture}\n' $packages
  [ -z "${WHEELS:-}" ] || sed -n 's/^\([a-zA-Z0-9_-]*\)==\([^ ;]*\).*/pypi \1 \2 any/p' "$WHEELS"
} | awk -v name="$name" -v version="$version" -v now="$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)" '
  BEGIN {
    printf "{\"spdxVersion\": \"SPDX-2.3\", \"dataLicense\": \"CC0-1.0\", \"SPDXID\": \"SPDXRef-DOCUMENT\",\n"
    printf " \"name\": \"%s-%s\", \"documentNamespace\": \"https://ddpjob.dev/spdx/%s-%s\",\n", name, version, name, version
    printf " \"creationInfo\": {\"created\": \"%s\", \"creators\": [\"Tool: docker/sbom.sh\"]},\n \"packages\": [\n", now
    printf "  {\"SPDXID\": \"SPDXRef-image\", \"name\": \"%s\", \"versionInfo\": \"%s\", \"downloadLocation\": \"NOASSERTION\"", name, version
    printf ", \"licenseConcluded\": \"Apache-2.0\"}"
  }
  {
    id = $2; gsub(/[^a-zA-Z0-9.-]/, "-", id)
    ids[++count] = "SPDXRef-" $1 "-" id
    place = $1 == "deb" ? "pkg:deb/debian/" $2 "@" $3 "?arch=" $4 : "pkg:pypi/" $2 "@" $3
    printf ",\n  {\"SPDXID\": \"%s\", \"name\": \"%s\", \"versionInfo\": \"%s\", \"downloadLocation\": \"NOASSERTION\"", ids[count], $2, $3
    printf ", \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\", \"referenceLocator\": \"%s\"}]}", place
  }
  END {
    printf "\n ],\n \"relationships\": [\n  {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-image\"}"
    for (i = 1; i <= count; ++i)
      printf ",\n  {\"spdxElementId\": \"SPDXRef-image\", \"relationshipType\": \"CONTAINS\", \"relatedSpdxElement\": \"%s\"}", ids[i]
    printf "\n ]}\n"
  }'
