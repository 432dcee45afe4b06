# SPDX-License-Identifier: Apache-2.0
# `cmake --install build --prefix PREFIX` installs the programs, the headers, and the libraries as archives, so that another
# project finds them with find_package(Kerf): Kerf::Trainer, Kerf::Runtime, ... (docs/embedding.md). It is included last,
# when all libraries exist.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(KERF_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Kerf)
get_property(libraries GLOBAL PROPERTY KERF_INSTALLED_LIBRARIES)
foreach(library ${libraries} kerf_flags)
  # KerfTrainer is Kerf::Trainer for other projects.
  string(REGEX REPLACE "^Kerf|^kerf_" "" short ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${short})
  install(TARGETS ${library} EXPORT KerfTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
install(EXPORT KerfTargets NAMESPACE Kerf:: DESTINATION ${KERF_PACKAGE_DIR})

# Debian's MLIR is not in a folder that the loader searches by itself.
set_target_properties(kerf kerf-run kerf-profile PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS kerf kerf-run kerf-profile RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/kerf DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${CMAKE_BINARY_DIR}/include/kerf DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.inc")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/clusters DESTINATION ${CMAKE_INSTALL_DATADIR}/kerf FILES_MATCHING PATTERN "*.json")

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/KerfConfig.cmake.in ${CMAKE_BINARY_DIR}/KerfConfig.cmake
  INSTALL_DESTINATION ${KERF_PACKAGE_DIR})
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/KerfConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/KerfConfig.cmake ${CMAKE_BINARY_DIR}/KerfConfigVersion.cmake DESTINATION ${KERF_PACKAGE_DIR})
