// SPDX-License-Identifier: Apache-2.0
// The bytes that processes exchange. All numbers are little-endian and have fixed widths.
//
// While ranks join, they exchange records: the text "KERFTCP\n", the protocol's version, the record's kind, and the
// size of its content (20 bytes), then the content. Afterwards they exchange messages: a header of 32 bytes, then the
// content of those kinds that have one.
#pragma once

#include "Socket.h"
#include <array>
#include <cstdint>
#include <optional>

namespace kerf::runtime::tcp {

inline constexpr uint32_t kProtocolVersion = 1;

enum class Kind : uint32_t {
  Eager = 1, // a small message: `tag`, `size`, and then its bytes
  Offer,     // a large message waits at its sender: `tag`, `size`, and the sender's number for it in `id`
  Grant,     // the receiver has memory for the offer `id`
  Decline,   // the receiver does not want the bytes of the offer `id`, because it expects another size
  Data,      // the bytes of the offer `id`
  Abort,     // the run has failed: the exit status in `tag`, 1 + the rank that was lost or 0 in `id`, and then the text
  Bye        // this rank sends nothing more; `tag` is 1 if the run has failed for it
};

/// The header of a message, which stands in front of its content.
struct Header {
  Kind kind = Kind::Eager;
  int64_t tag = 0;
  uint64_t size = 0, id = 0;
};
using HeaderBytes = std::array<std::byte, 32>;

/// Returns the bytes of a header, with a checksum.
HeaderBytes encode(const Header &header);
/// Returns the header, or nothing where the checksum or the kind is wrong.
std::optional<Header> decode(std::span<const std::byte, 32> bytes);

enum class RecordKind : uint32_t {
  Challenge = 1, // from the process that listens: random bytes
  Hello,         // from the process that connects: who it is, and the proof that it knows the secret
  Welcome,       // from the process that listens: the proof that it knows the secret
  Refused,       // the text of the reason
  Table,         // from rank 0: the addresses of all ranks
  Connected,     // to rank 0: this rank is connected to all others
  Go             // from rank 0: all ranks are connected to all others
};

/// Appends numbers and texts to the content of a record.
class RecordWriter {
public:
  void number(uint64_t value, int bytes = 4);
  void bytes(std::span<const std::byte> content) { all.insert(all.end(), content.begin(), content.end()); }
  void text(const std::string &content);
  std::vector<std::byte> all;
};

/// Takes numbers and texts from the content of a record. After a read beyond the end, `failed` is true.
class RecordReader {
public:
  explicit RecordReader(std::span<const std::byte> all) : all(all) {}
  uint64_t number(int bytes = 4);
  std::span<const std::byte> bytes(size_t count);
  std::string text();
  bool failed = false;

private:
  std::span<const std::byte> all;
};

inline constexpr size_t kRecordHeaderBytes = 20;
inline constexpr size_t kMostRecordBytes = 4096;            // of every record but a table
inline constexpr size_t kMostTableBytes = size_t(64) << 20; // of a table

/// The header of a record that has been read: its kind and size, or a text that says why it is none.
struct RecordHeader {
  RecordKind kind = RecordKind::Refused;
  size_t size = 0;
  std::string wrong;
};
RecordHeader decodeRecord(std::span<const std::byte, kRecordHeaderBytes> bytes, size_t most);

/// A record that has been read.
struct Record {
  RecordKind kind = RecordKind::Refused;
  std::vector<std::byte> content;
};

/// Writes a record to the socket. Returns whether all of it is written before the deadline.
bool sendRecord(const Fd &socket, RecordKind kind, std::span<const std::byte> content, Deadline deadline);
/// Reads a record. Errors say only what is wrong: the caller says whose record it is.
Result<Record> readRecord(const Fd &socket, size_t most, Deadline deadline);

} // namespace kerf::runtime::tcp
