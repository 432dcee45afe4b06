// SPDX-License-Identifier: Apache-2.0
// Reads benchmarks of matrix products from CSV files: tables of one's own, and those of cutlass_profiler
// (github.com/NVIDIA/cutlass), which lists many kernels for each product.
#include "kerf/Compiler/Calibrate.h"
#include "kerf/Support/Csv.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kerf {

namespace {

struct TimeColumn {
  std::string_view name; // in lower case
  double seconds;        // of one unit; 0: the column has a rate
  double flops;          // FLOP/s of one unit of a rate
};
/// The columns that tell the time of a product; the first one that is there counts.
constexpr TimeColumn kTimes[] = {{"seconds", 1, 0},   {"time_s", 1, 0},     {"ms", 1e-3, 0},      {"time_ms", 1e-3, 0},
                                 {"us", 1e-6, 0},     {"time_us", 1e-6, 0}, {"runtime", 1e-3, 0}, // of cutlass_profiler
                                 {"tflops", 0, 1e12}, {"gflops", 0, 1e9}};
constexpr double kMostOfSize = 1e9; // elements of a dimension
constexpr size_t kMostRows = 100000;

/// Returns the column that one of `names` has; the number of columns if there is none.
size_t columnOf(const std::vector<std::string> &headings, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names)
    for (size_t c = 0; c < headings.size(); ++c)
      if (headings[c] == name)
        return c;
  return headings.size();
}

/// Returns the element type that a cell such as "bf16" or "f16:column" names; "" for an unknown one.
std::string elementTypeOf(const std::string &cell) {
  std::string name = lowerCase(cell.substr(0, cell.find(':')));
  for (const auto &[word, dtype] :
       {std::pair("bf16", "bf16"), std::pair("bfloat16", "bf16"), std::pair("f16", "f16"), std::pair("fp16", "f16"),
        std::pair("float16", "f16"), std::pair("half", "f16"), std::pair("f32", "f32"), std::pair("fp32", "f32"),
        std::pair("float32", "f32"), std::pair("tf32", "tf32"), std::pair("f64", "f64"), std::pair("fp64", "f64"),
        std::pair("f8", "f8"), std::pair("fp8", "f8"), std::pair("fe4m3", "f8"), std::pair("fe5m2", "f8")})
    if (name == word)
      return dtype;
  return "";
}

double bytesOfElement(const std::string &dtype) {
  return dtype == "f8" ? 1 : dtype == "bf16" || dtype == "f16" ? 2 : dtype == "f64" ? 8 : 4;
}

} // namespace

Result<std::vector<MeasuredProduct>> parseProducts(std::string_view csv, const std::string &where) {
  std::vector<std::vector<std::string>> records = csvRecords(csv);
  std::vector<std::string> headings;
  if (!records.empty())
    for (const std::string &cell : records.front())
      headings.push_back(lowerCase(trimmed(cell)));
  size_t m = columnOf(headings, {"m"}), n = columnOf(headings, {"n"}), k = columnOf(headings, {"k"}),
         batch = columnOf(headings, {"batch", "batch_count"}), dtype = columnOf(headings, {"dtype", "a"}),
         none = headings.size(), time = none;
  const TimeColumn *unit = nullptr;
  for (const TimeColumn &one : kTimes)
    if (time = columnOf(headings, {one.name}); time != none) {
      unit = &one;
      break;
    }
  if (m == none || n == none || k == none || !unit)
    return Error{
        fmt::format("{}: its first line has to name the columns m, n, k and one of seconds, ms, us, tflops, or "
                    "those of cutlass_profiler (Runtime); change the first line",
                    where)};
  if (records.size() < 2 || records.size() > kMostRows + 1)
    return Error{fmt::format("{}: it has {} products; give 1 to {}", where, records.size() - 1, kMostRows)};
  std::map<std::tuple<std::string, double, double, double, double>, double> fastest;
  for (size_t r = 1; r < records.size(); ++r) {
    const std::vector<std::string> &cells = records[r];
    if (cells.size() != headings.size())
      return Error{fmt::format("{}, row {}: it has {} cells, and the first line names {} columns; give as many", where,
                               r, cells.size(), headings.size())};
    auto number = [&](size_t column, double most) -> Result<double> {
      auto value = positiveNumber(trimmed(cells[column]));
      if (!value || *value > most)
        return Error{fmt::format("{}, row {}: {} is '{}'; give a number above 0{}", where, r, headings[column],
                                 cells[column], most < 1e300 ? fmt::format(" and at most {:.0f}", most) : "")};
      return *value;
    };
    std::array<double, 4> sizes = {0, 0, 0, 1};
    for (size_t i = 0; i < sizes.size(); ++i)
      if (size_t column = std::array{m, n, k, batch}[i]; column != none) {
        auto size = number(column, kMostOfSize);
        if (!size)
          return size.error();
        sizes[i] = *size;
      }
    auto measured = number(time, std::numeric_limits<double>::infinity());
    if (!measured)
      return measured.error();
    std::string type = dtype == none ? "bf16" : elementTypeOf(trimmed(cells[dtype]));
    if (type.empty())
      return Error{fmt::format("{}, row {}: {} is '{}'; give bf16, f16, f32, tf32, f64 or f8", where, r,
                               headings[dtype], cells[dtype])};
    double flops = 2 * sizes[0] * sizes[1] * sizes[2] * sizes[3];
    double seconds = unit->flops > 0 ? flops / (*measured * unit->flops) : *measured * unit->seconds;
    auto [known, isNew] = fastest.try_emplace({type, sizes[0], sizes[1], sizes[2], sizes[3]}, seconds);
    known->second = std::min(known->second, seconds);
  }
  std::vector<MeasuredProduct> products;
  for (const auto &[key, seconds] : fastest) {
    const auto &[type, rows, columns, depth, count] = key;
    MeasuredProduct one;
    one.name = fmt::format("{}, {} x {} x {}", where, rows, columns, depth);
    one.work.kernelClass = KernelClass::Product;
    one.work.dtype = type;
    one.work.m = rows;
    one.work.n = columns;
    one.work.k = depth;
    one.work.batch = count;
    one.work.flops = 2 * rows * columns * depth * count;
    one.work.bytes = count * (rows * depth + depth * columns + rows * columns) * bytesOfElement(type);
    one.seconds = seconds;
    one.weight = 1 / static_cast<double>(fastest.size());
    products.push_back(std::move(one));
  }
  return products;
}

} // namespace kerf
