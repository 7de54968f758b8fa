# Read by CMake before each project of the crate shaderc-sys, which builds the shader compiler from C++: a quarter of the
# processor time that its own settings take. Targets that are not linked are left out, headers that nearly every file
# includes are compiled once a target, and eight files are compiled as one, so that what templates make of a type is made
# once for all of them (by GCC). What is linked, and the flags that it is made with, stay.

# A toolchain file is in charge of the compiler: those that the environment names for the target are taken here. Who
# compiles for another system names a file of their own, by CMAKE_TOOLCHAIN_FILE_<target>, which goes first.
string(REPLACE "-" "_" _target "$ENV{TARGET}")
foreach(_name IN ITEMS "$ENV{TARGET}" "${_target}")
  if(DEFINED ENV{CC_${_name}})
    set(CMAKE_C_COMPILER "$ENV{CC_${_name}}")
  endif()
  if(DEFINED ENV{CXX_${_name}})
    set(CMAKE_CXX_COMPILER "$ENV{CXX_${_name}}")
  endif()
endforeach()

set(SHADERC_SKIP_EXAMPLES ON CACHE BOOL "")
set(SHADERC_SKIP_EXECUTABLES ON CACHE BOOL "")
set(SHADERC_SKIP_COPYRIGHT_CHECK ON CACHE BOOL "")
set(SHADERC_SKIP_INSTALL ON CACHE BOOL "")
set(SKIP_SPIRV_TOOLS_INSTALL ON CACHE BOOL "")

function(_shaderc_alone _target)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/spirv-tools/source/")
  list(TRANSFORM ARGN APPEND ".cpp")
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${_target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Targets exist once the top project's lists were read.
function(_shaderc_lighten)
  foreach(_unused IN ITEMS SPIRV-Tools-shared SPIRV-Tools-reduce SPIRV-Tools-lint SPIRV-Tools-diff SPIRV-Tools-link
      shaderc_shared glslc)
    set_target_properties(${_unused} PROPERTIES EXCLUDE_FROM_ALL ON)
  endforeach()
  install(TARGETS shaderc_combined DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  # MSVC has the project's own precompiled headers.
  if(NOT MSVC)
    set(_source "${CMAKE_CURRENT_SOURCE_DIR}/spirv-tools/source")
    # Clang takes gigabytes for eight of glslang's files at once.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      foreach(_merged IN ITEMS SPIRV-Tools-opt SPIRV-Tools-static glslang MachineIndependent SPIRV)
        if(TARGET ${_merged})
          set_target_properties(${_merged} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
        endif()
      endforeach()
      # These name something of their own as a neighbour of theirs does.
      _shaderc_alone(SPIRV-Tools-static spirv_reducer_options val/validate_ray_tracing_reorder)
      _shaderc_alone(SPIRV-Tools-opt opt/basic_block opt/local_single_block_elim_pass opt/local_single_store_elim_pass
        opt/mem_pass opt/reduce_load_size)
    endif()
    target_precompile_headers(SPIRV-Tools-opt PRIVATE
      "${_source}/opt/pch_source_opt.h" "${_source}/opt/ir_builder.h" "${_source}/opt/loop_descriptor.h")
    target_precompile_headers(SPIRV-Tools-static PRIVATE "${_source}/pch_source.h")
  endif()
endfunction()

file(WRITE "${CMAKE_BINARY_DIR}/lighten.cmake" "cmake_language(DEFER CALL _shaderc_lighten)\n")
set(CMAKE_PROJECT_native-shaderc_INCLUDE "${CMAKE_BINARY_DIR}/lighten.cmake")
