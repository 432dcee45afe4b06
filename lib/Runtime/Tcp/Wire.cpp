// SPDX-License-Identifier: Apache-2.0
#include "Wire.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace kerf::runtime::tcp {

namespace {
constexpr std::string_view kMagic = "KERFTCP\n";

void put(std::byte *to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    to[i] = std::byte(value >> (8 * i));
}

uint64_t get(const std::byte *from, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= uint64_t(from[i]) << (8 * i);
  return value;
}

/// Returns the checksum (FNV-1a) of a header, whose own place at byte 4 is left out.
uint32_t checksumOf(std::span<const std::byte, 32> bytes) {
  uint32_t sum = 0x811c9dc5;
  for (size_t i = 0; i < bytes.size(); ++i)
    if (i < 4 || i >= 8)
      sum = (sum ^ uint32_t(bytes[i])) * 0x01000193;
  return sum;
}
} // namespace

HeaderBytes encode(const Header &header) {
  HeaderBytes bytes;
  put(bytes.data(), uint64_t(header.kind), 4);
  put(bytes.data() + 8, uint64_t(header.tag), 8);
  put(bytes.data() + 16, header.size, 8);
  put(bytes.data() + 24, header.id, 8);
  put(bytes.data() + 4, checksumOf(bytes), 4);
  return bytes;
}

std::optional<Header> decode(std::span<const std::byte, 32> bytes) {
  uint64_t kind = get(bytes.data(), 4);
  if (get(bytes.data() + 4, 4) != checksumOf(bytes) || kind < uint64_t(Kind::Eager) || kind > uint64_t(Kind::Bye))
    return std::nullopt;
  return Header{Kind(kind), int64_t(get(bytes.data() + 8, 8)), get(bytes.data() + 16, 8), get(bytes.data() + 24, 8)};
}

void RecordWriter::number(uint64_t value, int bytes) {
  all.resize(all.size() + size_t(bytes));
  put(all.data() + all.size() - bytes, value, bytes);
}

void RecordWriter::text(const std::string &content) {
  number(content.size(), 2);
  bytes(std::as_bytes(std::span(content)));
}

uint64_t RecordReader::number(int count) {
  auto taken = bytes(size_t(count));
  return taken.empty() ? 0 : get(taken.data(), count);
}

std::span<const std::byte> RecordReader::bytes(size_t count) {
  failed = failed || count > all.size();
  if (failed)
    return {};
  auto taken = all.first(count);
  all = all.subspan(count);
  return taken;
}

std::string RecordReader::text() {
  auto taken = bytes(size_t(number(2)));
  return std::string(reinterpret_cast<const char *>(taken.data()), taken.size());
}

RecordHeader decodeRecord(std::span<const std::byte, kRecordHeaderBytes> bytes, size_t most) {
  RecordHeader header;
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    header.wrong = "it does not speak Kerf's protocol";
    return header;
  }
  uint64_t version = get(bytes.data() + 8, 4), kind = get(bytes.data() + 12, 4), size = get(bytes.data() + 16, 4);
  if (version != kProtocolVersion)
    header.wrong = fmt::format("it speaks version {} of Kerf's protocol, and this process speaks version {}", version,
                               kProtocolVersion);
  else if (kind < uint64_t(RecordKind::Challenge) || kind > uint64_t(RecordKind::Go) || size > most)
    header.wrong = fmt::format("it sent a record of kind {} with {} bytes, which Kerf does not know", kind, size);
  header.kind = RecordKind(kind);
  header.size = size_t(size);
  return header;
}

bool sendRecord(const Fd &socket, RecordKind kind, std::span<const std::byte> content, Deadline deadline) {
  RecordWriter writer;
  writer.bytes(std::as_bytes(std::span(kMagic)));
  writer.number(kProtocolVersion);
  writer.number(uint64_t(kind));
  writer.number(content.size());
  writer.bytes(content);
  return writeAll(socket, writer.all, deadline) == Transfer::Done;
}

Result<Record> readRecord(const Fd &socket, size_t most, Deadline deadline) {
  auto failed = [](Transfer how) {
    return Error{how == Transfer::Closed ? "it closed the connection" : "it did not answer in time"};
  };
  std::array<std::byte, kRecordHeaderBytes> bytes;
  if (Transfer how = readAll(socket, bytes, deadline); how != Transfer::Done)
    return failed(how);
  RecordHeader header = decodeRecord(bytes, most);
  if (!header.wrong.empty())
    return Error{header.wrong};
  Record record{header.kind, std::vector<std::byte>(header.size)};
  if (Transfer how = readAll(socket, record.content, deadline); how != Transfer::Done)
    return failed(how);
  return record;
}

} // namespace kerf::runtime::tcp
