// SPDX-License-Identifier: Apache-2.0
// Reads the batches of a run in a background thread, a few batches ahead of the ranks that use them.
#pragma once

#include "kerf/Runtime/DataSet.h"
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

namespace kerf::runtime {

/// The tensor that the program takes from each batch for one of its inputs.
struct BatchInput {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  /// Returns the bytes of the tensor of one batch.
  int64_t bytes() const { return elementsOf(shape) * bytesOf(dtype); }
};

/// Returns the number of batches in one pass through the data. Fails if an input is missing in the data, or has another
/// shape or an incompatible type there.
Result<int64_t> batchesOf(const DataSet &data, const std::vector<BatchInput> &inputs, const DataOrder &order);

/// A source of batches for several users (ranks), each of which takes every batch, in order.
class BatchSource {
public:
  virtual ~BatchSource() = default;
  /// Waits until the user's next batch is available, and returns it. Element i of the result is the address of input
  /// i's data, row-major, in the input's type. The data is valid until `release`.
  virtual Result<const std::vector<const std::byte *> *> next(int64_t user) = 0;
  /// Says that the user no longer needs its current batch.
  virtual void release(int64_t user) = 0;
};

/// A source that reads batches from a data set.
class BatchReader : public BatchSource {
public:
  /// Starts to read. `requests` batches are read; the one with number r is batch `batchOf(r)`, counted through all
  /// passes of the data. A pass has `batches` batches, the number that batchesOf returns. `data` must outlive the
  /// reader. `users` is the number of users, each of which takes all `requests` batches.
  BatchReader(const DataSet &data, std::vector<BatchInput> inputs, const DataOrder &order, int64_t batches,
              int64_t requests, std::function<int64_t(int64_t)> batchOf, int64_t users);
  ~BatchReader() override;
  BatchReader(const BatchReader &) = delete;
  BatchReader &operator=(const BatchReader &) = delete;

  Result<const std::vector<const std::byte *> *> next(int64_t user) override;
  void release(int64_t user) override;

private:
  struct Slot {
    std::vector<Tensor> tensors;
    std::vector<std::byte *> memory;      // for each input: the address of its tensor's data
    std::vector<const std::byte *> parts; // the same addresses as `memory`, read-only
  };
  void work();
  Status read(int64_t batch, Slot &slot);
  Status readRows(const BatchInput &input, int64_t firstRow, int64_t rows, std::byte *out);
  Status readPiece(const std::string &name, const DataPiece &piece, int64_t firstRow, int64_t count, const Shape &row,
                   DType dtype, std::byte *out);
  Result<const TensorMap *> unpacked(const std::string &file);

  const DataSet &data;
  const std::vector<BatchInput> inputs;
  const DataOrder order;
  const int64_t batches, requests;
  const std::function<int64_t(int64_t)> batchOf;
  std::vector<Slot> slots;
  std::set<std::string> verified;                               // files whose checksums were found to be right
  std::vector<std::pair<std::string, TensorMap>> unpackedFiles; // contents of the compressed files that were read last
  std::vector<std::byte> unconverted;                           // rows of a file before their type conversion

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int64_t> released; // for each user: number of batches that it has released
  int64_t readSoFar = 0;         // number of batches that have been read
  std::optional<Error> failure;
  bool stopping = false;
  std::thread thread;
};

} // namespace kerf::runtime
