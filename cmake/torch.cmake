# libtorch for the CPU as target ddp_torch, from the unpacked wheel (cmake/fetch.sh torch).
# Not find_package(Torch): the wheel's own configuration wants CUDA and every library of the full build.
set(DDP_TORCH_ROOT ${DDP_CACHE}/torch CACHE PATH "Folder with torch/include and torch/lib")
if(NOT EXISTS ${DDP_TORCH_ROOT}/torch/lib/libtorch_cpu.so)
  message(FATAL_ERROR "libtorch is not in ${DDP_TORCH_ROOT}: run `cmake/fetch.sh torch` (make does), or set DDP_TORCH_ROOT")
endif()
set(_lib ${DDP_TORCH_ROOT}/torch/lib)
set(_nvidia ${DDP_TORCH_ROOT}/nvidia/cu13/lib)

# The wheel's include folder carries its own fmt, newer than the system's library that we link: a folder searched
# before it, with a link to the system's headers, makes all files use one version.
find_path(DDP_FMT_INCLUDE fmt/format.h PATHS /usr/include NO_DEFAULT_PATH REQUIRED)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include_first)
file(CREATE_LINK ${DDP_FMT_INCLUDE}/fmt ${PROJECT_BINARY_DIR}/include_first/fmt SYMBOLIC)

add_library(ddp_torch INTERFACE)
target_include_directories(ddp_torch SYSTEM INTERFACE
  ${PROJECT_BINARY_DIR}/include_first
  ${DDP_TORCH_ROOT}/torch/include ${DDP_TORCH_ROOT}/torch/include/torch/csrc/api/include)
target_link_libraries(ddp_torch INTERFACE ${_lib}/libtorch_cpu.so ${_lib}/libc10.so)
target_link_options(ddp_torch INTERFACE -Wl,-rpath-link,${_nvidia} -Wl,-rpath-link,${_lib})

# What a ddp-worker needs at run time goes beside it; libtorch's own search path starts with its folder.
install(FILES ${_lib}/libtorch_cpu.so ${_lib}/libc10.so ${_lib}/libgomp.so.1
  ${_nvidia}/libcudart.so.13 ${_nvidia}/libcupti.so.13
  DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT worker)
