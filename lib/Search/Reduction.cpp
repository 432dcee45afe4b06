// SPDX-License-Identifier: Apache-2.0
#include "Reduction.h"

namespace kerf::search {

Labels Reduction::expand(const Labels &labels) const {
  Labels before(labelsBefore.size(), -1);
  for (size_t i = 0; i < labels.size(); ++i) {
    before[variableOf[i]] = labelOf[i][labels[i]];
    if (isJoined(i))
      before[secondOf[i]] = secondLabelOf[i][labels[i]];
  }
  for (size_t k = eliminated.size(); k-- > 0;) {
    const EliminatedVariable &record = eliminated[k];
    int place = record.first < 0 ? 0 : before[record.first];
    if (record.second >= 0)
      place = place * labelsBefore[record.second] + before[record.second];
    before[record.variable] = record.labelOf[place];
  }
  return before;
}

Labels Reduction::project(const Labels &before) const {
  Labels labels(variableOf.size(), 0);
  for (size_t i = 0; i < labels.size(); ++i)
    for (size_t s = 0; s < labelOf[i].size(); ++s)
      if (labelOf[i][s] == before[variableOf[i]] && (!isJoined(i) || secondLabelOf[i][s] == before[secondOf[i]])) {
        labels[i] = static_cast<int>(s);
        break;
      }
  return labels;
}

std::vector<std::vector<char>> Reduction::possible(const std::vector<std::vector<char>> &after) const {
  std::vector<std::vector<char>> before;
  for (int labels : labelsBefore)
    before.emplace_back(labels, 0);
  for (size_t i = 0; i < after.size(); ++i)
    for (size_t s = 0; s < after[i].size(); ++s) {
      if (!after[i][s])
        continue;
      before[variableOf[i]][labelOf[i][s]] = 1;
      if (isJoined(i))
        before[secondOf[i]][secondLabelOf[i][s]] = 1;
    }
  for (const EliminatedVariable &record : eliminated)
    for (int label : record.labelOf)
      if (label >= 0)
        before[record.variable][label] = 1;
  return before;
}

} // namespace kerf::search
