# libtorch for the CPU as target ddp_torch, from the unpacked wheel (cmake/fetch.sh torch).
# Not find_package(Torch): the wheel's own configuration wants CUDA and every library of the full build.
set(DDP_TORCH_ROOT ${DDP_CACHE}/torch CACHE PATH "Folder with torch/include and torch/lib")
if(NOT EXISTS ${DDP_TORCH_ROOT}/torch/lib/libtorch_cpu.so)
  message(FATAL_ERROR "libtorch is not in ${DDP_TORCH_ROOT}: run `cmake/fetch.sh torch` (make does), or set DDP_TORCH_ROOT")
endif()
set(_lib ${DDP_TORCH_ROOT}/torch/lib)
set(_nvidia ${DDP_TORCH_ROOT}/nvidia/cu13/lib)

add_library(ddp_torch INTERFACE)
# After the system's folders: the wheel ships headers of another fmt than the one we link.
target_compile_options(ddp_torch INTERFACE
  "SHELL:-idirafter ${DDP_TORCH_ROOT}/torch/include"
  "SHELL:-idirafter ${DDP_TORCH_ROOT}/torch/include/torch/csrc/api/include")
target_link_libraries(ddp_torch INTERFACE ${_lib}/libtorch_cpu.so ${_lib}/libc10.so)
target_link_options(ddp_torch INTERFACE -Wl,-rpath-link,${_nvidia} -Wl,-rpath-link,${_lib})

# What a ddp-worker needs at run time goes beside it; libtorch's own search path starts with its folder.
install(FILES ${_lib}/libtorch_cpu.so ${_lib}/libc10.so ${_lib}/libgomp.so.1
  ${_nvidia}/libcudart.so.13 ${_nvidia}/libcupti.so.13
  DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT worker)

# libtorch's CUDA part is loaded where there is a GPU, and needed neither to compile nor to link (cmake/fetch.sh torch-cuda).
if(DDP_CUDA)
  set(DDP_TORCH_CUDA_ROOT ${DDP_CACHE}/torch-cuda CACHE PATH "Folder with torch/lib/libtorch_cuda.so and nvidia/*/lib")
  list(APPEND CMAKE_BUILD_RPATH ${DDP_TORCH_CUDA_ROOT}/torch/lib)
  foreach(_folder torch nvidia/cu13 nvidia/cudnn nvidia/cusparselt nvidia/nvshmem)
    install(DIRECTORY ${DDP_TORCH_CUDA_ROOT}/${_folder}/lib/ DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT worker OPTIONAL
      FILES_MATCHING PATTERN "*.so*")
  endforeach()
endif()
