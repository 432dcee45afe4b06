// SPDX-License-Identifier: Apache-2.0
// Training data: named arrays whose first axis counts rows. The arrays lie in memory, or in files that are read
// piece by piece.
#pragma once

#include "kerf/Package/StoredArray.h"

namespace kerf::runtime {

/// Consecutive rows of an array: a tensor in memory, or an array in one file.
struct DataPiece {
  int64_t firstRow = 0; // number of the piece's first row within the whole array
  int64_t rows = 0;     // number of rows in the piece
  Tensor tensor;        // the rows in memory; unused where `file` is not empty
  std::string file;     // path of the .npz or .npy file that holds the rows; empty: `tensor` holds them
  StoredArray stored;   // the rows' location and form in `file`
};

/// One named array of a data set.
struct DataArray {
  DType dtype = DType::F32;      // element type of all rows
  Shape row;                     // shape of one row, that is, the array's shape without its first axis
  std::vector<DataPiece> pieces; // the array's rows in order; one piece for each shard
  std::string problem;           // why the array cannot be an input of a model; empty where it can
};

/// Arrays by name, from one path or from memory.
struct DataSet {
  std::map<std::string, DataArray> arrays; // the arrays by name
  std::string place;                       // the data's origin for messages: the quoted path, or "data"
};

/// Opens a .npz file, a folder of .npy files, or a folder of shards. Shards are .npz files that hold the same arrays,
/// or files NAME-00000.npy, NAME-00001.npy, ... for each array. Reads only the files' headers. Fails if a shard is
/// missing or shards do not match.
Result<DataSet> openData(const std::string &path);

/// Returns a data set over tensors in memory.
DataSet dataOf(const TensorMap &tensors);

/// Returns the number of rows that the arrays called `names` have in common. All of them must be in `data`. Fails if
/// two arrays, or two of their shards, differ in their number of rows.
Result<int64_t> rowsOf(const DataSet &data, const std::vector<std::string> &names);

/// How batches are made from the rows of a data set.
struct DataOrder {
  /// True: a row is one sample, and several rows make up the first axis of a batch. False: a row is a whole batch.
  bool samples = false;
  bool shuffle = false; // true: each pass takes the rows in a new random order; false: in the order of the data
  uint64_t seed = 0;    // seed of the random orders
};

/// Returns the row at position `place`, in [0, rows), of pass number `pass` through the data in shuffled order. Each
/// pass is a permutation of the rows that depends only on `seed`, `pass` and `rows`, and that needs no memory.
int64_t shuffledRow(uint64_t seed, int64_t pass, int64_t rows, int64_t place);

} // namespace kerf::runtime
