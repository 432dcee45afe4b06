# SPDX-License-Identifier: Apache-2.0
# Decides whether the Python package (python/) is built: KERF_BUILDS_PYTHON.
set(KERF_BUILDS_PYTHON OFF)
if(KERF_PYTHON STREQUAL "OFF" OR KERF_FUZZ)
  return()
elseif(KERF_PYTHON STREQUAL "AUTO" AND (KERF_SANITIZE OR KERF_SANITIZE_THREADS)) # Python itself has no sanitizer (scripts/sanitize-python.sh)
  return()
endif()
execute_process(COMMAND ${Python3_EXECUTABLE} -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(Python_EXECUTABLE ${Python3_EXECUTABLE})
find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
find_package(nanobind 3.0 CONFIG QUIET)
if(Python_Development.Module_FOUND AND nanobind_FOUND)
  set(KERF_BUILDS_PYTHON ON)
  # The archives become part of a module. Nothing replaces a function of Kerf's at load time, so that the compiler may
  # still inline all of them. CMAKE_POSITION_INDEPENDENT_CODE would compile programs with -fPIE, so that they could not
  # share the precompiled headers.
  add_compile_options(-fPIC -fno-semantic-interposition)
elseif(KERF_PYTHON STREQUAL "AUTO")
  message(STATUS "The Python package is not built: ${Python3_EXECUTABLE} lacks nanobind 3 or Python's headers")
else()
  message(FATAL_ERROR "KERF_PYTHON needs nanobind 3 and Python's headers: ${Python3_EXECUTABLE} -m pip install nanobind nanobind-backend")
endif()
