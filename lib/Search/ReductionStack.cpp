// SPDX-License-Identifier: Apache-2.0
#include "ReductionStack.h"
#include <algorithm>
#include <utility>

using namespace kerf;
using namespace kerf::search;

void ReductionStack::push(Reduction reduction) {
  std::vector<int> variables = reduction.variableOf;
  std::vector<std::vector<int>> labels = reduction.labelOf;
  if (!reductions.empty())
    for (size_t i = 0; i < variables.size(); ++i) {
      for (int &label : labels[i])
        label = labelOf[variables[i]][label];
      variables[i] = reduction.isJoined(i) ? -1 : variableOf[variables[i]];
    }
  variableOf = std::move(variables);
  labelOf = std::move(labels);
  reduced = std::exchange(reduction.core, {});
  reductions.push_back(std::move(reduction));
}

Labels ReductionStack::expand(Labels labels) const {
  for (size_t k = reductions.size(); k-- > 0;)
    labels = reductions[k].expand(labels);
  return labels;
}

Labels ReductionStack::project(Labels labels) const {
  for (const Reduction &reduction : reductions)
    labels = reduction.project(labels);
  return labels;
}

std::vector<std::vector<char>> ReductionStack::possible() const {
  std::vector<std::vector<char>> labels;
  for (const std::vector<double> &costs : reduced.costs)
    labels.emplace_back(costs.size(), 1);
  for (size_t k = reductions.size(); k-- > 0;)
    labels = reductions[k].possible(labels);
  return labels;
}

MessagesByPair ReductionStack::saveMessages(const Core &like) const {
  MessagesByPair messages;
  for (const CoreTable &table : like.tables) {
    int u = variableOf[table.u], v = variableOf[table.v];
    TableMessages &entry = messages[std::minmax(u, v)];
    auto write = [&](const std::vector<double> &from, int end, std::vector<double> &to) {
      for (size_t s = 0; s < from.size(); ++s) {
        size_t label = labelOf[end][s];
        if (to.size() <= label)
          to.resize(label + 1, 0.0);
        to[label] = from[s];
      }
    };
    write(table.messagesToU, table.u, u < v ? entry.toU : entry.toV);
    write(table.messagesToV, table.v, u < v ? entry.toV : entry.toU);
  }
  return messages;
}

void ReductionStack::loadMessages(const MessagesByPair &messages) {
  for (CoreTable &table : reduced.tables) {
    int u = variableOf[table.u], v = variableOf[table.v];
    auto found = messages.find(std::minmax(u, v));
    if (found == messages.end())
      continue;
    auto read = [&](const std::vector<double> &from, int end, std::vector<double> &to) {
      to.assign(labelOf[end].size(), 0.0);
      for (size_t s = 0; s < to.size(); ++s)
        if (static_cast<size_t>(labelOf[end][s]) < from.size())
          to[s] = from[labelOf[end][s]];
    };
    read(u < v ? found->second.toU : found->second.toV, table.u, table.messagesToU);
    read(u < v ? found->second.toV : found->second.toU, table.v, table.messagesToV);
  }
}
