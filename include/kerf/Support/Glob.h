// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
namespace kerf {
/// True when the whole `text` matches `pattern`: `*` any run of characters ('/' and '.' too), `?` any one.
bool globMatch(std::string_view pattern, std::string_view text);
} // namespace kerf
