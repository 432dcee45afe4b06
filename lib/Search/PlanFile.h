// SPDX-License-Identifier: Apache-2.0
// The version of plan.json, which its reader and its writer share.
#pragma once

namespace kerf {

/// The value of the key "kerf": the version of the file's form.
inline constexpr int kPlanVersion = 1;

} // namespace kerf
