# nvcc, cudart and NCCL from the unpacked wheels (cmake/fetch.sh cuda): targets ddp_cudart and ddp_nccl, and
# ddp_cuda_sources for .cu files. Everything compiles and links on a machine without a GPU.
# Not enable_language(CUDA): its checks want a whole toolkit in one place, with static libraries that wheels lack.
set(DDP_CUDA_ROOT ${DDP_CACHE}/cuda/nvidia CACHE PATH "Folder with cu13/ (nvcc, cudart) and nccl/")
set(DDP_CUDA_ARCHITECTURES "80;90;100" CACHE STRING "GPU architectures to compile for; the last one also as PTX")
set(_cu ${DDP_CUDA_ROOT}/cu13)
set(_nccl ${DDP_CUDA_ROOT}/nccl)
if(NOT EXISTS ${_cu}/bin/nvcc OR NOT EXISTS ${_nccl}/lib/libnccl.so.2)
  message(FATAL_ERROR "nvcc or NCCL is not in ${DDP_CUDA_ROOT}: run `cmake/fetch.sh cuda`, or set DDP_CUDA_ROOT")
endif()

add_library(ddp_cudart INTERFACE)
target_include_directories(ddp_cudart SYSTEM INTERFACE ${_cu}/include)
target_link_libraries(ddp_cudart INTERFACE ${_cu}/lib/libcudart.so.13)
add_library(ddp_nccl INTERFACE)
target_include_directories(ddp_nccl SYSTEM INTERFACE ${_nccl}/include)
target_link_libraries(ddp_nccl INTERFACE ddp_cudart ${_nccl}/lib/libnccl.so.2)

set(_arch_flags)
foreach(_arch IN LISTS DDP_CUDA_ARCHITECTURES)
  list(APPEND _arch_flags -gencode arch=compute_${_arch},code=sm_${_arch})
  set(_last_arch ${_arch})
endforeach()
list(APPEND _arch_flags -gencode arch=compute_${_last_arch},code=compute_${_last_arch})
set(DDP_NVCC_FLAGS ${_arch_flags} -std=c++17 -O3 -Xcompiler -fPIC,-Wall,-Wextra -ccbin ${CMAKE_CXX_COMPILER})

# ddp_cuda_sources(TARGET a.cu ...): compiles each and adds the object to the target.
function(ddp_cuda_sources target)
  foreach(source IN LISTS ARGN)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${DDP_CUDA_ROOT}/cu13/bin/nvcc ${DDP_NVCC_FLAGS} -I${PROJECT_SOURCE_DIR} -MD -MF ${object}.d -MT ${object}
        -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d
      COMMENT "Building CUDA object ${source}.o" VERBATIM COMMAND_EXPAND_LISTS)
    target_sources(${target} PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  endforeach()
endfunction()

install(FILES ${_nccl}/lib/libnccl.so.2 DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT worker)
