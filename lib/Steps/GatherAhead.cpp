// SPDX-License-Identifier: Apache-2.0
#include "GatherAhead.h"

#include <algorithm>
#include <map>
#include <set>

namespace kerf::steps {

namespace {
using package::FlatArg;
using package::FlatInstruction;
using package::FlatProgram;

/// The parameter gathers of one layer (one outermost call), or a single gather outside of layers.
struct Layer {
  int call = -1;               // FlatInstruction::call; -1: outside of layers
  std::vector<size_t> gathers; // indices in FlatProgram::body
  size_t firstWait = SIZE_MAX; // index in FlatProgram::body of the first instruction that uses one of them
};

class GatherMover {
public:
  explicit GatherMover(FlatProgram &flat) : flat(flat) {
    for (const FlatArg &arg : flat.args)
      args.insert(arg.value);
  }

  int64_t run() {
    findLayers();
    int64_t ahead = 0;
    std::map<size_t, FlatInstruction> starts; // inserted before the instruction at that index
    std::vector<bool> moved(flat.body.size(), false);
    for (size_t l = 0; l < layers.size(); ++l) {
      size_t place = layers[l].gathers.front();
      if (l > 0 && layers[l - 1].firstWait < place) {
        place = layers[l - 1].firstWait;
        ahead += int64_t(layers[l].gathers.size());
      }
      FlatInstruction &start = starts[place];
      for (size_t gather : layers[l].gathers) {
        join(start, std::move(flat.body[gather]));
        moved[gather] = true;
      }
    }
    std::vector<FlatInstruction> body;
    for (size_t i = 0; i < flat.body.size(); ++i) {
      if (auto start = starts.find(i); start != starts.end())
        body.push_back(std::move(start->second));
      if (!moved[i])
        body.push_back(std::move(flat.body[i]));
    }
    flat.body = std::move(body);
    return ahead;
  }

private:
  bool gathersArguments(const FlatInstruction &instruction) const {
    auto isGather = [](const package::Instruction *source) { return source->op == "all_gather"; };
    return instruction.kind == FlatInstruction::Kind::Op && isGather(instruction.source) &&
           std::all_of(instruction.others.begin(), instruction.others.end(),
                       [&](const FlatInstruction::Member &other) { return isGather(other.source); }) &&
           std::all_of(instruction.operands.begin(), instruction.operands.end(),
                       [&](int operand) { return args.contains(operand); });
  }

  void findLayers() {
    std::map<int, size_t> layerOf; // for each gathered value: its index in `layers`
    for (size_t i = 0; i < flat.body.size(); ++i) {
      const FlatInstruction &instruction = flat.body[i];
      if (gathersArguments(instruction)) {
        if (layers.empty() || instruction.call < 0 || layers.back().call != instruction.call)
          layers.push_back({instruction.call, {}});
        layers.back().gathers.push_back(i);
        for (int result : instruction.results)
          layerOf[result] = layers.size() - 1;
      }
      for (int operand : instruction.operands)
        if (auto found = layerOf.find(operand); found != layerOf.end())
          layers[found->second].firstWait = std::min(layers[found->second].firstWait, i);
    }
  }

  static void join(FlatInstruction &start, FlatInstruction gather) {
    if (!start.source) {
      start = std::move(gather);
      return;
    }
    start.others.push_back({gather.source, gather.origin, gather.microbatch});
    start.others.insert(start.others.end(), gather.others.begin(), gather.others.end());
    start.operands.insert(start.operands.end(), gather.operands.begin(), gather.operands.end());
    start.results.insert(start.results.end(), gather.results.begin(), gather.results.end());
  }

  FlatProgram &flat;
  std::set<int> args;
  std::vector<Layer> layers;
};
} // namespace

int64_t gatherAhead(FlatProgram &flat) { return GatherMover(flat).run(); }

} // namespace kerf::steps
