# gRPC, protobuf and Abseil from the distribution's archives, for programs that are carried to another machine. Their
# CMake packages name shared libraries; the archives lie beside them. Every use of Abseil is redirected too: a program that
# mixes shared and static has two copies of gRPC's and Abseil's globals and ends at start.

# The archive of a library by its link name, or an error: falling back to the shared one would be the mixture above.
function(hone_archive name out)
  find_library(HONE_ARCHIVE_${name} NAMES lib${name}.a)
  mark_as_advanced(HONE_ARCHIVE_${name})
  if(NOT HONE_ARCHIVE_${name})
    message(FATAL_ERROR "HONE_STATIC_RPC: no lib${name}.a; use the shared libraries, or install the archive")
  endif()
  set(${out} ${HONE_ARCHIVE_${name}} PARENT_SCOPE)
endfunction()

# absl::* as the rest of the build names them.
get_property(hone_imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target ${hone_imported})
  get_target_property(type ${target} TYPE)
  if(NOT target MATCHES "^absl::" OR NOT type STREQUAL "SHARED_LIBRARY")
    continue()
  endif()
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  foreach(configuration ${configurations})
    get_target_property(shared ${target} IMPORTED_LOCATION_${configuration})
    string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${shared}")
    if(NOT EXISTS "${archive}")
      message(FATAL_ERROR "HONE_STATIC_RPC: ${target} has no archive beside ${shared}")
    endif()
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} ${archive})
  endforeach()
endforeach()

# The closure of gRPC as its own pkg-config file lists it. OpenSSL and the C library stay shared.
pkg_check_modules(HONE_GRPC REQUIRED grpc++)
set(hone_rpc_archives)
foreach(name grpc++_reflection ${HONE_GRPC_STATIC_LIBRARIES} protobuf)
  if(name MATCHES "^(ssl|crypto|dl|rt|m|atomic|pthread|stdc\\+\\+)$")
    continue()
  endif()
  hone_archive(${name} archive)
  list(APPEND hone_rpc_archives ${archive})
endforeach()
list(REMOVE_DUPLICATES hone_rpc_archives)
target_link_libraries(hone_rpc INTERFACE
  -Wl,--start-group ${hone_rpc_archives} -Wl,--end-group OpenSSL::SSL OpenSSL::Crypto Threads::Threads ${CMAKE_DL_LIBS} rt)
