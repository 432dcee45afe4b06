# SPDX-License-Identifier: Apache-2.0
# Links LLVM and MLIR as archives (the option KERF_STATIC_LLVM). Debian's archives of MLIR name the shared library LLVM as
# what they need. Two copies of LLVM in one program do not work, so here that target stands for the archives of LLVM.
llvm_map_components_to_libnames(archives
  asmprinter bitreader core ipo linker mc object passes support target x86codegen x86asmparser x86desc x86info nvptxcodegen nvptxdesc nvptxinfo)
list(POP_FRONT archives first)
foreach(property IMPORTED_LOCATION IMPORTED_LOCATION_RELEASE IMPORTED_LOCATION_RELWITHDEBINFO)
  set_target_properties(LLVM PROPERTIES ${property} ${LLVM_LIBRARY_DIR}/lib${first}.a)
endforeach()
set_target_properties(LLVM PROPERTIES INTERFACE_LINK_LIBRARIES "${archives}")
if(NOT TARGET zstd::libzstd_shared) # LLVM's own configuration names it, and libzstd-dev need not be installed
  find_library(ZSTD_LIBRARY NAMES zstd libzstd.so.1 REQUIRED)
  add_library(zstd::libzstd_shared SHARED IMPORTED)
  set_target_properties(zstd::libzstd_shared PROPERTIES IMPORTED_LOCATION ${ZSTD_LIBRARY})
endif()
add_link_options(LINKER:--gc-sections)
find_program(KERF_GOLD ld.gold)
if(KERF_GOLD) # links these archives in a fraction of the memory of ld.bfd
  add_link_options(-fuse-ld=gold)
endif()
