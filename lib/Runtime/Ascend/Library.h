// SPDX-License-Identifier: Apache-2.0
// Finds and opens CANN's libraries.
#pragma once

#include "../Accelerator/Library.h"

namespace kerf::runtime::ascend {

/// Opens a library. Looks in the folders of KERF_ASCEND_LIBRARIES (separated by ':'), then in those of CANN's own
/// variables, then where CANN installs itself, then where the system's loader looks. Fails with the loader's text.
Result<Library> openLibrary(const std::string &name);

} // namespace kerf::runtime::ascend
