// SPDX-License-Identifier: Apache-2.0
// Training data as named arrays with one leading axis of rows, in memory or in files that are read piece by piece.
#pragma once

#include "kerf/Package/StoredArray.h"

namespace kerf::runtime {

/// Consecutive rows of an array: a tensor in memory, or a part of a file.
struct DataPiece {
  int64_t firstRow = 0, rows = 0;
  Tensor tensor;    // in memory; without a file
  std::string file; // .npz or .npy
  StoredArray stored;
};

struct DataArray {
  DType dtype = DType::F32;
  Shape row; // shape of one row
  std::vector<DataPiece> pieces;
  std::string problem; // why it can't be an input's data; empty where it can
};

struct DataSet {
  std::map<std::string, DataArray> arrays;
  std::string place; // for messages: "'batches.npz'"
};

/// Opens a .npz file, a folder of .npy files, or a folder of shards: .npz files that hold the same arrays, or
/// NAME-00000.npy, NAME-00001.npy, ... for each array. Reads headers alone. Fails where shards do not match.
Result<DataSet> openData(const std::string &path);

/// Tensors in memory.
DataSet dataOf(const TensorMap &tensors);

/// The number of rows that the arrays `names` have in common; they must be there. Fails where their shards differ.
Result<int64_t> rowsOf(const DataSet &data, const std::vector<std::string> &names);

/// How batches are made of rows.
struct DataOrder {
  bool samples = false; // a row is a sample, and the batch's first axis is made of rows; otherwise a row is a batch
  bool shuffle = false;
  uint64_t seed = 0;
};

/// The row at place `place` of pass number `pass` through `rows` rows in shuffled order: for each pass a permutation
/// that depends on `seed`, `pass` and `rows` alone. Needs no memory.
int64_t shuffledRow(uint64_t seed, int64_t pass, int64_t rows, int64_t place);

} // namespace kerf::runtime
