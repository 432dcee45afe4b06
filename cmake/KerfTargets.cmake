# SPDX-License-Identifier: Apache-2.0
# The three kinds of target that Kerf has. Every room's CMakeLists.txt is one or two calls of these.

add_library(kerf_flags INTERFACE)
target_include_directories(kerf_flags INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/include> $<INSTALL_INTERFACE:include>)
target_compile_features(kerf_flags INTERFACE cxx_std_20)
# g++ 12 sees overlaps in std::string that are not there (GCC bug 105651): -Wno-restrict. In a unity build every file is an included
# one, where g++ expects no anonymous namespaces: -Wno-subobject-linkage. Headers of the CPU's kernels have pragmas of OpenMP, which
# only the kernels are compiled with: -Wno-unknown-pragmas.
target_compile_options(kerf_flags INTERFACE $<BUILD_INTERFACE:-Wall> $<BUILD_INTERFACE:-Wextra> $<BUILD_INTERFACE:-Wno-unused-parameter>
  $<BUILD_INTERFACE:-Wno-unknown-pragmas> $<BUILD_INTERFACE:$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>>
  $<BUILD_INTERFACE:$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>>)
# g++ collects its garbage from 1 GiB (the value is in KiB) of memory on, not from 128 MiB: a file takes 10 to 15 % less time and 1 to
# 12 % more memory (g++ 12, three files measured).
target_compile_options(kerf_flags INTERFACE $<BUILD_INTERFACE:$<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>>)
if(KERF_SANITIZE)
  # The packaged LLVM is not instrumented: vptr and container checks would see half of each object.
  set(KERF_SANITIZERS -fsanitize=address,undefined -fno-sanitize=vptr -fno-omit-frame-pointer)
  if(KERF_SANITIZE_ONLY) # the other targets are those of a release build, whose objects ccache has
    list(APPEND KERF_SANITIZERS -O1)
    target_compile_options(kerf_flags INTERFACE "$<$<IN_LIST:$<TARGET_PROPERTY:NAME>,${KERF_SANITIZE_ONLY}>:${KERF_SANITIZERS}>")
  else()
    target_compile_options(kerf_flags INTERFACE ${KERF_SANITIZERS})
  endif()
  # Clang looks in front of a function that is called by pointer; in front of a package's code there is no memory.
  target_compile_options(kerf_flags INTERFACE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  target_link_options(kerf_flags INTERFACE -fsanitize=address,undefined)
endif()
if(KERF_FUZZ)
  target_compile_options(kerf_flags INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize-recover=all)
endif()
if(KERF_SANITIZE_THREADS)
  set(KERF_SANITIZERS -fsanitize=thread -fno-omit-frame-pointer)
  target_compile_options(kerf_flags INTERFACE ${KERF_SANITIZERS})
  target_link_options(kerf_flags INTERFACE -fsanitize=thread)
endif()

# kerf_install_library(KerfSearch): the library of a room is installed (KerfInstall.cmake); libraries of programs are not.
function(kerf_install_library name)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE place)
  if(place MATCHES "^lib/")
    set_property(GLOBAL APPEND PROPERTY KERF_INSTALLED_LIBRARIES ${name})
  endif()
endfunction()

# kerf_library(KerfSearch SOURCES a.cpp LINK KerfSupport): a room of plain data.
function(kerf_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  kerf_install_library(${name})
  target_link_libraries(${name} PUBLIC kerf_flags ${ARG_LINK})
  kerf_begin_with(${name} kerf_plain_headers)
endfunction()

# kerf_mlir_library(KerfTransforms SOURCES a.cpp LINK KerfDialect): a room that sees MLIR.
function(kerf_mlir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  kerf_install_library(${name})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_link_libraries(${name} PUBLIC kerf_flags ${ARG_LINK})
  add_dependencies(${name} kerf-tablegen)
  mlir_target_link_libraries(${name} PUBLIC MLIRIR)
  # MLIR's shared library does not pass on LLVM's, whose numbers (APFloat, APInt) our code uses.
  target_link_libraries(${name} PUBLIC LLVM)
  if(NOT name STREQUAL KerfDialect)
    kerf_share_headers(${name})
  endif()
endfunction()

# kerf_begin_with(NAME HEADERS): the files of the target begin with the headers of the target HEADERS, which are parsed once.
# Each file still includes what it uses: the other presets parse it by itself.
function(kerf_begin_with name headers)
  if(KERF_PRECOMPILE)
    if(NOT TARGET ${headers}) # CMake 3.25 wants it, later ones do not
      message(FATAL_ERROR "${name} begins with the headers of ${headers}, which is defined after it; define ${headers} first")
    endif()
    target_precompile_headers(${name} REUSE_FROM ${headers})
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>) # for ccache
  endif()
endfunction()

# kerf_precompile(HEADERS LINK KerfSupport HEADERS <string>): a target whose headers others begin with.
function(kerf_precompile name)
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS" ${ARGN})
  if(KERF_PRECOMPILE)
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "")
    add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
    target_link_libraries(${name} PRIVATE kerf_flags ${ARG_LINK})
    target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endif()
endfunction()

# kerf_share_headers(NAME): the target, which links KerfDialect, begins with the dialect's headers (lib/Dialect/Kerf).
function(kerf_share_headers name)
  kerf_begin_with(${name} kerf_shared_headers)
endfunction()

# kerf_device_sources(CpuDevice.cpp LINK KerfKernels): the files of a device's folder, which become part of KerfRuntime, and the
# libraries that they need. Each folder is compiled by itself, because devices repeat names.
function(kerf_device_sources)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  add_library(Kerf${folder}Device OBJECT ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(Kerf${folder}Device PRIVATE kerf_flags KerfPackage Threads::Threads ${ARG_LINK})
  kerf_begin_with(Kerf${folder}Device kerf_plain_headers)
  target_sources(KerfRuntime PRIVATE $<TARGET_OBJECTS:Kerf${folder}Device>)
  target_link_libraries(KerfRuntime PUBLIC ${ARG_LINK})
endfunction()

# kerf_compile_quickly(kerf): a target without hot loops of its own. Its files compile in 65 to 82 % of the time that -O3 takes
# (g++ 12, three files measured).
function(kerf_compile_quickly name)
  target_compile_options(${name} BEFORE PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# kerf_unittest(SearchTests SOURCES a.cpp LINK KerfSearch): a GoogleTest program, run by ctest. With DIALECT its files begin with
# the dialect's headers.
function(kerf_unittest name)
  cmake_parse_arguments(ARG "DIALECT" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main)
  if(ARG_DIALECT)
    kerf_share_headers(${name})
  else()
    kerf_begin_with(${name} kerf_test_headers)
  endif()
  kerf_compile_quickly(${name})
  add_test(NAME ${name} COMMAND ${name})
endfunction()
