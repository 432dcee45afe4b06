// SPDX-License-Identifier: Apache-2.0
#include "Windows.h"

#include <algorithm>

namespace kerf::runtime::kernels {

void readWindow(Checker &check, Window &window) {
  window.strides = check.integers("strides");
  window.dilations = check.integers("dilations");
  window.low = check.integers("low");
  window.high = check.integers("high");
  size_t rank = window.window.size();
  check.require(window.size.size() == rank && window.places.size() == rank, "a window of {} dimensions moves over {}",
                rank, window.size.size());
  const std::tuple<std::string_view, const std::vector<int64_t> &, int64_t> lists[] = {
      {"window", window.window, 1},
      {"strides", window.strides, 1},
      {"dilations", window.dilations, 1},
      {"low", window.low, 0},
      {"high", window.high, 0}};
  for (const auto &[name, entries, least] : lists) {
    check.require(entries.size() == rank, "attribute '{}' has {} entries, not {}", name, entries.size(), rank);
    for (int64_t entry : entries)
      check.require(entry >= least, "attribute '{}' has the entry {}, below {}", name, entry, least);
  }
  for (size_t d = 0; d < rank && !check.failed(); ++d) {
    int64_t room = window.low[d] + window.size[d] + window.high[d] - (window.window[d] - 1) * window.dilations[d] - 1;
    int64_t places = room < 0 ? 0 : room / window.strides[d] + 1;
    check.require(window.places[d] == places, "dimension {} of the window has {} places, the result {}", d, places,
                  window.places[d]);
  }
}

std::vector<WindowLine> linesOf(const Window &window) {
  std::vector<WindowLine> lines;
  size_t rank = window.size.size(), last = rank - 1;
  int64_t rows = product(window.places, 0, last);
  int64_t stride = window.strides[last];
  for (int64_t w = 0; w < window.windowElements(); ++w)
    for (int64_t row = 0; row < rows && window.places[last] > 0; ++row) {
      WindowLine line{w, 0, row * window.places[last], 0, 0};
      // The tensor's element below the line in every dimension but the last. `shift` is that of place 0 in
      // the last one.
      int64_t restOfW = w / window.window[last], restOfRow = row, scale = window.size[last];
      int64_t shift = w % window.window[last] * window.dilations[last] - window.low[last];
      bool inside = true;
      for (size_t d = last; d-- > 0;) {
        int64_t at = restOfRow % window.places[d] * window.strides[d] +
                     restOfW % window.window[d] * window.dilations[d] - window.low[d];
        inside &= at >= 0 && at < window.size[d];
        line.from += at * scale;
        scale *= window.size[d];
        restOfRow /= window.places[d];
        restOfW /= window.window[d];
      }
      line.from += shift;
      if (inside) { // 0 <= shift + t * stride < size
        line.begin = std::min(shift < 0 ? (-shift + stride - 1) / stride : 0, window.places[last]);
        int64_t behind = window.size[last] - shift;
        line.end = std::clamp(behind <= 0 ? 0 : (behind - 1) / stride + 1, line.begin, window.places[last]);
      }
      lines.push_back(line);
    }
  return lines;
}

} // namespace kerf::runtime::kernels
