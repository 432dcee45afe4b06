// SPDX-License-Identifier: Apache-2.0
#include "Sha256.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace kerf::runtime::tcp {

namespace {
constexpr size_t kBlockBytes = 64;

constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// Mixes one block of 64 bytes into the state.
void addBlock(std::array<uint32_t, 8> &state, const std::byte *block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i)
    w[i] = uint32_t(block[4 * i]) << 24 | uint32_t(block[4 * i + 1]) << 16 | uint32_t(block[4 * i + 2]) << 8 |
           uint32_t(block[4 * i + 3]);
  for (size_t i = 16; i < 64; ++i) {
    uint32_t low = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    uint32_t high = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < 64; ++i) {
    uint32_t sumE = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    uint32_t first = h + sumE + ((e & f) ^ (~e & g)) + kRoundConstants[i] + w[i];
    uint32_t sumA = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    uint32_t second = sumA + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const std::array<uint32_t, 8> mixed = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i)
    state[i] += mixed[i];
}
} // namespace

Digest sha256(std::span<const std::byte> bytes) {
  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::vector<std::byte> padded(bytes.begin(), bytes.end());
  padded.push_back(std::byte(0x80));
  padded.resize((padded.size() + 8 + kBlockBytes - 1) / kBlockBytes * kBlockBytes);
  const uint64_t bits = uint64_t(bytes.size()) * 8;
  for (size_t i = 0; i < 8; ++i)
    padded[padded.size() - 1 - i] = std::byte(bits >> (8 * i));
  for (size_t at = 0; at < padded.size(); at += kBlockBytes)
    addBlock(state, padded.data() + at);
  Digest digest;
  for (size_t i = 0; i < 32; ++i)
    digest[i] = std::byte(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest hmac(const std::string &secret, std::span<const std::byte> bytes) {
  std::array<std::byte, kBlockBytes> key = {};
  auto given = std::as_bytes(std::span(secret));
  if (given.size() > kBlockBytes) {
    Digest shorter = sha256(given);
    std::copy(shorter.begin(), shorter.end(), key.begin());
  } else {
    std::copy(given.begin(), given.end(), key.begin());
  }
  auto keyed = [&](std::byte pad, std::span<const std::byte> text) {
    std::vector<std::byte> all;
    for (std::byte one : key)
      all.push_back(one ^ pad);
    all.insert(all.end(), text.begin(), text.end());
    return sha256(all);
  };
  return keyed(std::byte(0x5c), keyed(std::byte(0x36), bytes));
}

} // namespace kerf::runtime::tcp
