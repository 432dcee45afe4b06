// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) and HMAC (RFC 2104), with which processes prove to each other that they know the same secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kerf::runtime::tcp {

using Digest = std::array<std::byte, 32>;

/// Returns the SHA-256 digest of `bytes`.
Digest sha256(std::span<const std::byte> bytes);
/// Returns the HMAC of `bytes` with the key `secret`, computed with SHA-256.
Digest hmac(const std::string &secret, std::span<const std::byte> bytes);

} // namespace kerf::runtime::tcp
