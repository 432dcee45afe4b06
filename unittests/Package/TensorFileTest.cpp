// SPDX-License-Identifier: Apache-2.0
// Tests the readers of tensor files on bytes that the test writes by the specifications of .npy and zip.
#include "kerf/Package/TensorFile.h"
#include "kerf/Package/Half.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <zlib.h>

namespace kerf {
namespace {

class Folder {
public:
  Folder() {
    char pattern[] = "/tmp/kerf-tensors-XXXXXX";
    path = mkdtemp(pattern);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string &name, const std::string &bytes) const {
    std::ofstream(path + "/" + name, std::ios::binary)
        << bytes; // not writeFile: thousands of files need not reach the disk
    return path + "/" + name;
  }
  std::string path;
};

template <typename T> std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string npy(const std::string &descr, const std::string &order, const std::string &shape, const std::string &data) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.resize((10 + header.size() + 64) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + raw(uint16_t(header.size())) + header + data;
}

enum class Packing { Stored, Deflated, Stored64 };

std::string zip(const std::vector<std::pair<std::string, std::string>> &members, Packing packing) {
  std::string out, directory;
  bool wide = packing == Packing::Stored64;
  for (const auto &[name, data] : members) {
    std::string packed = data;
    if (packing == Packing::Deflated) {
      packed.resize(compressBound(data.size()) + 64);
      z_stream stream{};
      deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
      stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(data.data()));
      stream.avail_in = uInt(data.size());
      stream.next_out = reinterpret_cast<Bytef *>(packed.data());
      stream.avail_out = uInt(packed.size());
      EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
      packed.resize(stream.total_out);
      deflateEnd(&stream);
    }
    uint32_t crc = uint32_t(crc32(0, reinterpret_cast<const Bytef *>(data.data()), uInt(data.size())));
    std::string common =
        raw(uint16_t(0)) + raw(uint16_t(packing == Packing::Deflated ? 8 : 0)) + raw(uint32_t(0)) + raw(crc);
    std::string sizes =
        wide ? raw(UINT32_MAX) + raw(UINT32_MAX) : raw(uint32_t(packed.size())) + raw(uint32_t(data.size()));
    std::string extra =
        wide ? raw(uint16_t(1)) + raw(uint16_t(16)) + raw(uint64_t(data.size())) + raw(uint64_t(packed.size())) : "";
    uint32_t offset = uint32_t(out.size());
    out += raw(0x04034b50u) + raw(uint16_t(20)) + common + sizes + raw(uint16_t(name.size())) +
           raw(uint16_t(extra.size())) + name + extra + packed;
    directory += raw(0x02014b50u) + raw(uint16_t(20)) + raw(uint16_t(20)) + common + sizes +
                 raw(uint16_t(name.size())) + raw(uint16_t(extra.size())) + raw(uint16_t(0)) + raw(uint16_t(0)) +
                 raw(uint16_t(0)) + raw(uint32_t(0)) + raw(offset) + name + extra;
  }
  uint64_t start = out.size();
  out += directory;
  if (wide) {
    uint64_t end64 = out.size();
    out += raw(0x06064b50u) + raw(uint64_t(44)) + raw(uint16_t(45)) + raw(uint16_t(45)) + raw(uint32_t(0)) +
           raw(uint32_t(0)) + raw(uint64_t(members.size())) + raw(uint64_t(members.size())) +
           raw(uint64_t(directory.size())) + raw(start);
    out += raw(0x07064b50u) + raw(uint32_t(0)) + raw(end64) + raw(uint32_t(1));
  }
  out += raw(0x06054b50u) + raw(uint16_t(0)) + raw(uint16_t(0)) + raw(uint16_t(wide ? 0xffff : members.size())) +
         raw(uint16_t(wide ? 0xffff : members.size())) + raw(uint32_t(directory.size())) +
         raw(wide ? UINT32_MAX : uint32_t(start)) + raw(uint16_t(0));
  return out;
}

std::string floats(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i)
    bytes += raw(float(i) * 0.5f);
  return bytes;
}

std::string message(const std::string &path) {
  auto read = readTensors(path);
  return read ? "no error" : read.error().message;
}

TEST(Npz, ReadsStoredDeflatedAndWideArchives) {
  Folder folder;
  for (Packing packing : {Packing::Stored, Packing::Deflated, Packing::Stored64}) {
    auto read = readTensors(
        folder.write("a.npz", zip({{"x.npy", npy("<f4", "False", "(20, 3)", floats(60))},
                                   {"n.npy", npy("<i8", "False", "(2,)", raw(int64_t(-7)) + raw(int64_t(1) << 40))},
                                   {"s.npy", npy("|b1", "False", "()", std::string(1, '\1'))}},
                                  packing)));
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(read->size(), 3u);
    EXPECT_EQ(read->at("x").shape, (Shape{20, 3}));
    EXPECT_EQ(std::memcmp(read->at("x").data, floats(60).data(), 240), 0);
    int64_t second = 0;
    std::memcpy(&second, read->at("n").data + 8, 8);
    EXPECT_EQ(second, int64_t(1) << 40);
    EXPECT_EQ(read->at("s").dtype, DType::Bool);
    EXPECT_EQ(read->at("s").shape, Shape{});
  }
}

TEST(Npz, RefusesWhatItCannotRead) {
  Folder folder;
  auto one = [&](const std::string &array) {
    return message(folder.write("a.npz", zip({{"x.npy", array}}, Packing::Stored)));
  };
  auto has = [](const std::string &text, const std::string &part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(one(npy("<f4", "True", "(2, 3)", floats(6))), "Fortran order; save numpy.ascontiguousarray");
  has(one(npy(">f4", "False", "(2, 3)", floats(6))), "big-endian");
  has(one(npy("<c8", "False", "(3,)", floats(6))), "'<c8' is not supported");
  has(one(npy("<f4", "False", "(2, 4)", floats(6))), "needs 32 bytes, but 24 follow");
  has(one(npy("<f4", "False", "(-2, 4)", floats(6))), "not a tuple of sizes");
  has(one(npy("<f4", "False", "(9999999999, 9999999999)", floats(6))), "not a tuple of sizes");
  has(one("not an array at all"), "not a .npy array");
  has(message(folder.write("b.npz", "PK nothing")), "not an .npz file");
  has(message(folder.path + "/none.npz"), "none.npz");
  has(message(folder.path + "/none.bin"), "does not exist");
  std::string damaged = zip({{"x.npy", npy("<f4", "False", "(20, 3)", floats(60))}}, Packing::Stored);
  damaged[200] = char(damaged[200] ^ 1);
  has(message(folder.write("c.npz", damaged)), "checksum");
}

TEST(Npz, ReadsAFolder) {
  Folder folder;
  folder.write("x.npy", npy("<f8", "False", "(1,)", raw(2.5)));
  folder.write("notes.txt", "not an array");
  auto read = readTensors(folder.path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->size(), 1u);
  EXPECT_EQ(read->at("x").dtype, DType::F64);
}

TEST(Safetensors, ReadsWhatItWrites) {
  Folder folder;
  auto [x, bytes] = allocateTensor(DType::F32, {3, 2});
  std::memcpy(bytes, floats(6).data(), 24);
  auto [empty, none] = allocateTensor(DType::I64, {0, 4});
  auto [flag, flagBytes] = allocateTensor(DType::Bool, {});
  ASSERT_TRUE(writeSafetensors(folder.path + "/a.safetensors", {{"x", x}, {"empty", empty}, {"flag", flag}},
                               {{"format", "pt"}}));
  auto read = readTensors(folder.path + "/a.safetensors");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 3u);
  EXPECT_EQ(read->at("x").shape, (Shape{3, 2}));
  EXPECT_EQ(std::memcmp(read->at("x").data, bytes, 24), 0);
  EXPECT_EQ(read->at("empty").shape, (Shape{0, 4}));
  EXPECT_FALSE(bool(writeSafetensors("/no/such/folder/a.safetensors", {{"x", x}})));
}

TEST(TensorFiles, TruncationAndDamageNeverCrash) {
  Folder folder;
  auto [x, bytes] = allocateTensor(DType::F32, {3, 2});
  ASSERT_TRUE(writeSafetensors(folder.path + "/a.safetensors", {{"x", x}, {"y", x}}));
  std::vector<std::pair<std::string, std::string>> files = {
      {"t.safetensors", *readFile(folder.path + "/a.safetensors")}};
  for (Packing packing : {Packing::Stored, Packing::Deflated, Packing::Stored64})
    files.push_back({"t.npz", zip({{"x.npy", npy("<f4", "False", "(3, 2)", floats(6))},
                                   {"y.npy", npy("<i4", "False", "(2,)", floats(2))}},
                                  packing)});
  constexpr uint32_t kSeed = 12;
  std::mt19937 random(kSeed);
  for (const auto &[name, whole] : files) {
    for (size_t length = 0; length < whole.size(); length += length + 40 < whole.size() ? 7 : 1)
      ASSERT_FALSE(bool(readTensors(folder.write(name, whole.substr(0, length))))) << name << " " << length;
    for (int trial = 0; trial < 100; ++trial) {
      std::string damaged = whole;
      for (int flips = 1 + int(random() % 3); flips > 0; --flips)
        damaged[random() % damaged.size()] = char(random());
      auto read = readTensors(folder.write(name, damaged));
      if (!read)
        continue;
      int64_t sum = 0; // every byte that is promised can be read
      for (const auto &[key, tensor] : *read)
        for (int64_t i = 0; i < tensor.bytes(); ++i)
          sum += int64_t(tensor.data[i]);
      ASSERT_GE(sum, 0) << "seed " << kSeed;
    }
  }
}

TEST(Convert, RoundsFloatsAndChecksIntegers) {
  auto [wide, bytes] = allocateTensor(DType::I64, {2});
  int64_t values[] = {5, int64_t(1) << 31};
  std::memcpy(bytes, values, 16);
  auto narrow = convertTensor(wide, DType::I32);
  ASSERT_FALSE(bool(narrow));
  EXPECT_NE(narrow.error().message.find("element 1 is 2147483648"), std::string::npos) << narrow.error().message;
  EXPECT_FALSE(bool(convertTensor(wide, DType::F32)));
  values[1] = -3;
  std::memcpy(bytes, values, 16);
  narrow = convertTensor(wide, DType::I32);
  ASSERT_TRUE(narrow);
  int32_t second = 0;
  std::memcpy(&second, narrow->data + 4, 4);
  EXPECT_EQ(second, -3);
  auto unsignedOne = convertTensor(wide, DType::U64);
  ASSERT_FALSE(bool(unsignedOne));
  EXPECT_NE(unsignedOne.error().message.find("element 1 is -3"), std::string::npos) << unsignedOne.error().message;
  auto [large, memory] = allocateTensor(DType::U64, {1});
  uint64_t most = ~uint64_t(0);
  std::memcpy(memory, &most, 8);
  auto lost = convertTensor(large, DType::I64);
  ASSERT_FALSE(bool(lost));
  EXPECT_NE(lost.error().message.find("element 0 is 18446744073709551615"), std::string::npos) << lost.error().message;
}

TEST(Half, RoundsToNearestEven) {
  // Every 16-bit number survives the way there and back; between two neighbours the nearer wins, in the middle the
  // even one.
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float f16 = floatFromF16(uint16_t(bits)), bf16 = floatFromBf16(uint16_t(bits));
    if (!std::isnan(f16)) {
      ASSERT_EQ(f16FromFloat(f16), bits);
    }
    if (!std::isnan(bf16)) {
      ASSERT_EQ(bf16FromFloat(bf16), bits);
    }
    ASSERT_EQ(std::isnan(f16), std::isnan(floatFromF16(f16FromFloat(f16))));
    if ((bits & 0x7fff) >= 0x7bff || (bits & 0x8000))
      continue; // the middle of two positive finite neighbours is exact in float
    float next = floatFromF16(uint16_t(bits + 1)), middle = (f16 + next) / 2;
    ASSERT_EQ(f16FromFloat(middle), bits & 1 ? bits + 1 : bits);
    ASSERT_EQ(f16FromFloat(std::nextafter(middle, next)), bits + 1);
    ASSERT_EQ(f16FromFloat(std::nextafter(middle, f16)), bits);
  }
  EXPECT_EQ(f16FromFloat(65519.9f), 0x7bff);
  EXPECT_EQ(f16FromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(bf16FromFloat(1.00390625f), 0x3f80); // halfway between 1 and 1.0078125
  EXPECT_EQ(bf16FromFloat(1.01171875f), 0x3f82);
}

} // namespace
} // namespace kerf
