# The helpers that give every folder the same five-line build file.

# hone_library(NAME SRCS a.cc ... [DEPS x ...] [TORCH])
# A static library. TORCH: its sources see torch's headers, through a shared precompiled header.
function(hone_library name)
  cmake_parse_arguments(arg "TORCH" "" "SRCS;DEPS" ${ARGN})
  if(arg_SRCS)
    add_library(${name} STATIC ${arg_SRCS})
    set(scope PUBLIC)
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(${name} ${scope} hone_flags ${arg_DEPS})
  if(arg_TORCH)
    hone_use_torch(${name})
  endif()
endfunction()

# hone_program(NAME SRCS a.cc ... [DEPS x ...] [TORCH]): an executable in bin/, installed.
function(hone_program name)
  cmake_parse_arguments(arg "TORCH" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  target_link_libraries(${name} PRIVATE hone_flags ${arg_DEPS})
  if(arg_TORCH)
    hone_use_torch(${name})
  endif()
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  if(HONE_STATIC_RPC)  # for another machine: CMakeLists.txt installs the libraries it may lack
    install(TARGETS ${name} RUNTIME_DEPENDENCY_SET hone_carried RUNTIME DESTINATION bin)
  else()
    install(TARGETS ${name} RUNTIME DESTINATION bin)
  endif()
endfunction()

# hone_bench(NAME SRCS a.cc ... [DEPS x ...] [TORCH]): as hone_program, but stays in the build tree.
function(hone_bench name)
  cmake_parse_arguments(arg "TORCH" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  target_link_libraries(${name} PRIVATE hone_flags ${arg_DEPS})
  if(arg_TORCH)
    hone_use_torch(${name})
  endif()
endfunction()

# hone_resources(NAME FILES a.py b/c.h ... DESTINATION dir): files that programs read at run time, found through
# ResourcePath("dir/..."). Copied to share/hone/dir of the build tree, keeping folders below the calling one, and
# installed there. A program or test that reads them depends on NAME (add_dependencies).
function(hone_resources name)
  cmake_parse_arguments(arg "" "DESTINATION" "FILES" ${ARGN})
  set(copies)
  foreach(file ${arg_FILES})
    set(copy ${CMAKE_BINARY_DIR}/share/hone/${arg_DESTINATION}/${file})
    add_custom_command(OUTPUT ${copy} COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${copy}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} VERBATIM)
    list(APPEND copies ${copy})
    get_filename_component(folder ${file} DIRECTORY)
    install(FILES ${file} DESTINATION share/hone/${arg_DESTINATION}/${folder})
  endforeach()
  add_custom_target(${name} ALL DEPENDS ${copies})
endfunction()

# hone_test(NAME SRCS a.cc ... [DEPS x ...] [TORCH] [LABELS l ...] [TIMEOUT_S n] [WAITS])
# One Catch2 program, one CTest entry. Tests live under tests/, which mirrors the tree. CTest's slots are half cores (make test
# asks for two a core): a test takes two, one that mostly WAITS (for leases, deadlines, processes that start) one. Without
# times of an earlier run those with the longest time limit start first.
function(hone_test name)
  cmake_parse_arguments(arg "TORCH;WAITS" "TIMEOUT_S" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  target_link_libraries(${name} PRIVATE hone_flags hone_test_support Catch2::Catch2WithMain ${arg_DEPS})
  if(arg_TORCH)
    hone_use_torch(${name})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT arg_TIMEOUT_S)
    set(arg_TIMEOUT_S 120)
  endif()
  set(slots 2)
  if(arg_WAITS)
    set(slots 1)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT_S} COST ${arg_TIMEOUT_S} PROCESSORS ${slots} LABELS "${arg_LABELS}" SKIP_RETURN_CODE 4
    ENVIRONMENT "HONE_TEST_BIN=${CMAKE_BINARY_DIR}/bin;HONE_PYTHON=${HONE_PYTHON};${HONE_TEST_SANDBOX}")
endfunction()

# Gives a target libtorch and the precompiled cmake/torch_pch.h of the build.
function(hone_use_torch name)
  target_link_libraries(${name} PRIVATE hone_torch)
  get_target_property(type ${name} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    return()
  endif()
  if(type STREQUAL "EXECUTABLE")  # the precompiled header is -fPIC; an executable's default would be -fPIE
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIC)
  endif()
  if(TARGET hone_torch_pch)
    target_precompile_headers(${name} REUSE_FROM hone_torch_pch)
    target_compile_options(${name} PRIVATE -Winvalid-pch)
  endif()
endfunction()

# hone_cuda_library(NAME SRCS a.cu ...): kernels compiled by nvcc, with CUDA's runtime linked statically, so that the
# program starts on machines without a GPU. Defines HONE_WITH_CUDA for whoever links it. Without nvcc there is no target.
function(hone_cuda_library name)
  cmake_parse_arguments(arg "" "" "SRCS" ${ARGN})
  if(NOT HONE_NVCC)
    return()
  endif()
  set(targets)
  foreach(architecture ${HONE_CUDA_ARCHITECTURES})
    list(APPEND targets -gencode arch=compute_${architecture},code=[sm_${architecture},compute_${architecture}])
  endforeach()
  set(objects)
  foreach(source ${arg_SRCS})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${HONE_NVCC} -c -O3 -std=c++20 -Xcompiler=-fPIC,-Wall ${targets} -I${CMAKE_SOURCE_DIR} -MD -MF ${object}.d
              -MT ${object} -o ${object} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_library(${name} STATIC ${objects})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_compile_definitions(${name} INTERFACE HONE_WITH_CUDA)
  target_link_libraries(${name} PUBLIC ${HONE_CUDART_STATIC} Threads::Threads ${CMAKE_DL_LIBS} rt)
endfunction()

# hone_proto(NAME PROTOS a.proto ...): messages and gRPC stubs, once per file, shared by all.
function(hone_proto name)
  cmake_parse_arguments(arg "" "" "PROTOS" ${ARGN})
  set(generated)
  foreach(proto ${arg_PROTOS})
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    set(outputs ${CMAKE_CURRENT_BINARY_DIR}/${stem}.pb.cc ${CMAKE_CURRENT_BINARY_DIR}/${stem}.pb.h
                ${CMAKE_CURRENT_BINARY_DIR}/${stem}.grpc.pb.cc ${CMAKE_CURRENT_BINARY_DIR}/${stem}.grpc.pb.h)
    add_custom_command(OUTPUT ${outputs}
      COMMAND ${HONE_PROTOC} -I ${CMAKE_CURRENT_SOURCE_DIR} --cpp_out=${CMAKE_CURRENT_BINARY_DIR}
              --grpc_out=${CMAKE_CURRENT_BINARY_DIR} --plugin=protoc-gen-grpc=${HONE_GRPC_PLUGIN} ${proto}
      WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} DEPENDS ${proto} VERBATIM)
    list(APPEND generated ${outputs})
  endforeach()
  add_library(${name} STATIC ${generated})
  target_include_directories(${name} SYSTEM PUBLIC ${CMAKE_CURRENT_BINARY_DIR})
  target_link_libraries(${name} PUBLIC hone_rpc)
endfunction()
