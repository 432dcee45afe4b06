// SPDX-License-Identifier: Apache-2.0
#include "Reduce.h"
#include <algorithm>
#include <deque>
#include <numeric>

using namespace kerf;
using namespace kerf::search;

namespace {

class Reducer {
public:
  Reducer(Core start, const ReduceOptions &options)
      : core(std::move(start)), options(options), dominanceLeft(options.dominanceCells) {
    int count = core.size();
    labelOf.resize(count);
    for (int i = 0; i < count; ++i) {
      labelOf[i].resize(core.labels(i));
      std::iota(labelOf[i].begin(), labelOf[i].end(), 0);
      reduction.labelsBefore.push_back(core.labels(i));
    }
    gone.assign(count, 0);
    queued.assign(count, 0);
    queuedLater.assign(count, 0);
    appended.assign(count, 0);
    takenFrom.assign(core.slack.size() + 1, 0);
    tableGone.assign(core.tables.size(), 0);
    for (int i = 0; i < count; ++i)
      normalize(i), push(i);
  }

  Reduction run() {
    for (int round = 0; round < 8 && !core.infeasible; ++round) {
      while (!core.infeasible && (!queue.empty() || !later.empty())) {
        bool cheap = !queue.empty();
        std::deque<int> &from = cheap ? queue : later;
        int variable = from.front();
        from.pop_front();
        (cheap ? queued : queuedLater)[variable] = 0;
        if (!gone[variable])
          cheap ? visit(variable) : visitLater(variable);
      }
      if (core.infeasible || !dropRows())
        break;
    }
    return finish();
  }

private:
  void push(int variable) {
    if (!queued[variable] && !gone[variable])
      queued[variable] = 1, queue.push_back(variable);
  }

  int other(const CoreTable &table, int variable) const { return table.u == variable ? table.v : table.u; }

  /// Returns the table's entry index for label `own` of `variable` and label `theirs` of the other variable.
  size_t cell(const CoreTable &table, int variable, int own, int theirs) const {
    return table.u == variable ? static_cast<size_t>(own) * core.labels(table.v) + theirs
                               : static_cast<size_t>(theirs) * core.labels(table.v) + own;
  }

  /// Merges usages of equal rows, and moves bytes that all labels take from the usages into the slack.
  void normalize(int variable) {
    appended[variable] = 0;
    std::vector<CoreUsage> &usages = core.usages[variable];
    std::sort(usages.begin(), usages.end(), [](const CoreUsage &a, const CoreUsage &b) {
      return std::pair(a.firstRow, a.endRow) < std::pair(b.firstRow, b.endRow);
    });
    size_t kept = 0;
    for (size_t k = 0; k < usages.size();) {
      CoreUsage usage = std::move(usages[k++]);
      for (; k < usages.size() && usages[k].firstRow == usage.firstRow && usages[k].endRow == usage.endRow; ++k)
        for (size_t s = 0; s < usage.bytes.size(); ++s)
          usage.bytes[s] += usages[k].bytes[s];
      int64_t least = *std::min_element(usage.bytes.begin(), usage.bytes.end());
      takenFrom[usage.firstRow] += least;
      takenFrom[usage.endRow] -= least;
      bool any = false;
      for (int64_t &bytes : usage.bytes)
        any |= (bytes -= least) != 0;
      if (any && usage.firstRow < usage.endRow)
        usages[kept++] = std::move(usage);
    }
    usages.resize(kept);
  }

  static void compress(std::vector<double> &values, const std::vector<char> &mask) {
    size_t left = 0;
    for (size_t s = 0; s < values.size(); ++s)
      if (mask[s])
        values[left++] = values[s];
    values.resize(left);
  }

  static void add(std::vector<double> &to, const std::vector<double> &more) {
    if (to.empty())
      to = more;
    else
      for (size_t s = 0; s < more.size(); ++s)
        to[s] += more[s];
  }

  void keep(int variable, const std::vector<char> &mask) {
    size_t count = core.costs[variable].size(), left = 0;
    for (int t : core.tablesOf[variable]) {
      CoreTable &table = core.tables[t];
      size_t columns = core.labels(table.v), out = 0;
      for (size_t c = 0; c < table.costs.size(); ++c)
        if (mask[table.u == variable ? c / columns : c % columns])
          table.costs[out++] = table.costs[c];
      table.costs.resize(out);
      compress(table.u == variable ? table.messagesToU : table.messagesToV, mask);
      push(other(table, variable));
    }
    for (size_t s = 0; s < count; ++s)
      if (mask[s]) {
        core.costs[variable][left] = core.costs[variable][s];
        labelOf[variable][left] = labelOf[variable][s];
        for (CoreUsage &usage : core.usages[variable])
          usage.bytes[left] = usage.bytes[s];
        ++left;
      }
    core.costs[variable].resize(left);
    labelOf[variable].resize(left);
    for (CoreUsage &usage : core.usages[variable])
      usage.bytes.resize(left);
    if (left == 0)
      core.infeasible = true;
    else
      normalize(variable);
    push(variable);
  }

  void visit(int variable) {
    if (appended[variable])
      normalize(variable);
    if (removeInfeasibleLabels(variable) || core.infeasible)
      return;
    if (core.labels(variable) == 1 || (core.tablesOf[variable].empty() && core.usages[variable].empty()))
      return fix(variable);
    for (int t : core.tablesOf[variable])
      if (followAlong(t))
        return push(variable);
    if (!queuedLater[variable])
      queuedLater[variable] = 1, later.push_back(variable);
  }

  /// Tries the expensive reductions, once no cheap one applies any more.
  void visitLater(int variable) {
    if (removeDominated(variable))
      return;
    if (core.tablesOf[variable].size() == 1 && foldLeaf(variable))
      return;
    if (core.tablesOf[variable].size() == 2 && core.usages[variable].empty())
      foldSeries(variable);
  }

  /// Removes labels of infinite cost, and labels that have no allowed partner in some table.
  bool removeInfeasibleLabels(int variable) {
    int count = core.labels(variable);
    std::vector<char> mask(count, 1);
    bool any = false;
    for (int s = 0; s < count; ++s) {
      mask[s] = core.costs[variable][s] < kInfinity;
      for (size_t k = 0; mask[s] && k < core.tablesOf[variable].size(); ++k) {
        const CoreTable &table = core.tables[core.tablesOf[variable][k]];
        int partners = core.labels(other(table, variable)), p = 0;
        while (p < partners && table.costs[cell(table, variable, s, p)] == kInfinity)
          ++p;
        mask[s] = p < partners;
      }
      any |= !mask[s];
    }
    if (any)
      keep(variable, mask);
    return any;
  }

  /// Eliminates a variable that has a single label, or neither tables nor memory.
  void fix(int variable) {
    const std::vector<double> &costs = core.costs[variable];
    int best = static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin());
    core.constant += costs[best];
    for (int t : std::vector<int>(core.tablesOf[variable])) {
      CoreTable &table = core.tables[t];
      int partner = other(table, variable);
      for (int p = 0; p < core.labels(partner); ++p)
        core.costs[partner][p] += table.costs[cell(table, variable, best, p)];
      removeTable(t);
      push(partner);
    }
    take(variable, {variable, -1, -1, {labelOf[variable][best]}});
  }

  void take(int variable, EliminatedVariable record) {
    gone[variable] = 1;
    core.usages[variable].clear();
    reduction.eliminated.push_back(std::move(record));
  }

  void removeTable(int t) {
    for (int end : {core.tables[t].u, core.tables[t].v})
      core.tablesOf[end].erase(std::find(core.tablesOf[end].begin(), core.tablesOf[end].end(), t));
    tableGone[t] = 1;
    core.tables[t].costs = core.tables[t].messagesToU = core.tables[t].messagesToV = {};
  }

  /// Adds a table; if there is one between the same variables, its entries are added to it.
  void addTable(CoreTable added) {
    int u = added.u, v = added.v, columns = core.labels(v);
    for (int t : core.tablesOf[u].size() < core.tablesOf[v].size() ? core.tablesOf[u] : core.tablesOf[v]) {
      CoreTable &table = core.tables[t];
      if ((table.u != u || table.v != v) && (table.u != v || table.v != u))
        continue;
      for (size_t c = 0; c < added.costs.size(); ++c)
        table.costs[cell(table, u, static_cast<int>(c / columns), static_cast<int>(c % columns))] += added.costs[c];
      add(table.u == u ? table.messagesToU : table.messagesToV, added.messagesToU);
      add(table.u == u ? table.messagesToV : table.messagesToU, added.messagesToV);
      return;
    }
    int t = static_cast<int>(core.tables.size());
    core.tables.push_back(std::move(added));
    tableGone.push_back(0);
    core.tablesOf[u].push_back(t);
    core.tablesOf[v].push_back(t);
  }

  /// Eliminates one variable of a table if each label of the other leaves it a single label. Its costs and memory move
  /// to the other variable.
  bool followAlong(int t) {
    const CoreTable &table = core.tables[t];
    for (int leader : {table.u, table.v}) {
      int follower = other(table, leader);
      std::vector<int> label(core.labels(leader), -1);
      bool single = true;
      for (int a = 0; single && a < core.labels(leader); ++a)
        for (int b = 0; single && b < core.labels(follower); ++b)
          if (table.costs[cell(table, leader, a, b)] < kInfinity) {
            single = label[a] < 0;
            label[a] = b;
          }
      if (!single || std::count(label.begin(), label.end(), -1) > 0)
        continue;
      follow(t, leader, follower, label);
      return true;
    }
    return false;
  }

  void follow(int t, int leader, int follower, const std::vector<int> &label) {
    const CoreTable &table = core.tables[t];
    EliminatedVariable record{follower, leader, -1, std::vector<int>(reduction.labelsBefore[leader], -1)};
    for (int a = 0; a < core.labels(leader); ++a) {
      core.costs[leader][a] += core.costs[follower][label[a]] + table.costs[cell(table, leader, a, label[a])];
      record.labelOf[labelOf[leader][a]] = labelOf[follower][label[a]];
    }
    for (CoreUsage &usage : core.usages[follower]) {
      CoreUsage mine{usage.firstRow, usage.endRow, {}};
      for (int b : label)
        mine.bytes.push_back(usage.bytes[b]);
      core.usages[leader].push_back(std::move(mine));
    }
    removeTable(t);
    for (int s : std::vector<int>(core.tablesOf[follower])) {
      const CoreTable &old = core.tables[s];
      int partner = other(old, follower), columns = core.labels(partner);
      CoreTable mine{leader, partner, {}};
      mine.costs.reserve(label.size() * columns);
      for (int b : label)
        for (int p = 0; p < columns; ++p)
          mine.costs.push_back(old.costs[cell(old, follower, b, p)]);
      if (const std::vector<double> &moved = old.u == follower ? old.messagesToU : old.messagesToV; !moved.empty())
        for (int b : label)
          mine.messagesToU.push_back(moved[b]);
      mine.messagesToV = old.u == follower ? old.messagesToV : old.messagesToU;
      removeTable(s);
      addTable(std::move(mine));
      push(partner);
    }
    appended[leader] = 1; // merged later in one go: a variable with many neighbours gets many usages
    take(follower, std::move(record));
    push(leader);
  }

  /// Returns whether label `a` takes at most the bytes of label `b` in every usage.
  bool takesNoMore(int variable, int a, int b) const {
    for (const CoreUsage &usage : core.usages[variable])
      if (usage.bytes[a] > usage.bytes[b])
        return false;
    return true;
  }

  /// Eliminates a variable with one neighbour if, for each label of the neighbour, its cheapest label also
  /// takes the least memory.
  bool foldLeaf(int leaf) {
    int t = core.tablesOf[leaf][0], parent = other(core.tables[t], leaf);
    const CoreTable &table = core.tables[t];
    std::vector<int> best(core.labels(parent));
    std::vector<double> added(core.labels(parent));
    for (int p = 0; p < core.labels(parent); ++p) {
      double least = kInfinity;
      auto costOf = [&](int s) { return core.costs[leaf][s] + table.costs[cell(table, leaf, s, p)]; };
      for (int s = 0; s < core.labels(leaf); ++s)
        least = std::min(least, costOf(s));
      int chosen = -1;
      for (int s = 0; s < core.labels(leaf); ++s)
        if (costOf(s) == least && (chosen < 0 || takesNoMore(leaf, s, chosen)))
          chosen = s;
      if (least < kInfinity)
        for (int s = 0; s < core.labels(leaf); ++s)
          if (costOf(s) < kInfinity && !takesNoMore(leaf, chosen, s))
            return false;
      best[p] = chosen;
      added[p] = least;
    }
    EliminatedVariable record{leaf, parent, -1, std::vector<int>(reduction.labelsBefore[parent], -1)};
    for (int p = 0; p < core.labels(parent); ++p) {
      core.costs[parent][p] += added[p];
      record.labelOf[labelOf[parent][p]] = labelOf[leaf][best[p]];
    }
    for (const CoreUsage &usage : core.usages[leaf]) {
      CoreUsage mine{usage.firstRow, usage.endRow, {}};
      for (int s : best)
        mine.bytes.push_back(usage.bytes[s]);
      core.usages[parent].push_back(std::move(mine));
    }
    removeTable(t);
    appended[parent] = 1;
    take(leaf, std::move(record));
    push(parent);
    return true;
  }

  /// Eliminates a variable with two neighbours and no memory: one table between the neighbours replaces it.
  void foldSeries(int middle) {
    int ends[2];
    const CoreTable *sides[2];
    for (int k = 0; k < 2; ++k) {
      sides[k] = &core.tables[core.tablesOf[middle][k]];
      ends[k] = other(*sides[k], middle);
    }
    int64_t rows = core.labels(ends[0]), columns = core.labels(ends[1]);
    if (rows * columns > options.seriesCells && !adjacent(ends[0], ends[1]))
      return;
    CoreTable added{ends[0], ends[1], std::vector<double>(rows * columns)};
    added.messagesToU = sides[0]->u == middle ? sides[0]->messagesToV : sides[0]->messagesToU;
    added.messagesToV = sides[1]->u == middle ? sides[1]->messagesToV : sides[1]->messagesToU;
    EliminatedVariable record{middle, ends[0], ends[1],
                              std::vector<int>(reduction.labelsBefore[ends[0]] * reduction.labelsBefore[ends[1]], -1)};
    for (int a = 0; a < rows; ++a)
      for (int b = 0; b < columns; ++b) {
        double least = kInfinity;
        int best = 0;
        for (int s = 0; s < core.labels(middle); ++s) {
          double cost = core.costs[middle][s] + sides[0]->costs[cell(*sides[0], middle, s, a)] +
                        sides[1]->costs[cell(*sides[1], middle, s, b)];
          if (cost < least)
            least = cost, best = s;
        }
        added.costs[a * columns + b] = least;
        record.labelOf[labelOf[ends[0]][a] * reduction.labelsBefore[ends[1]] + labelOf[ends[1]][b]] =
            labelOf[middle][best];
      }
    for (int t : std::vector<int>(core.tablesOf[middle]))
      removeTable(t);
    addTable(std::move(added));
    take(middle, std::move(record));
    push(ends[0]);
    push(ends[1]);
  }

  bool adjacent(int u, int v) const {
    for (int t : core.tablesOf[u])
      if (other(core.tables[t], u) == v)
        return true;
    return false;
  }

  /// Removes label b if some label a costs no more whatever the neighbours' labels are (Goldstein 1994) and
  /// takes no more memory.
  bool removeDominated(int variable) {
    int count = core.labels(variable);
    // Quick test at one label of every neighbour: a label that is dearer there does not dominate.
    std::vector<double> sample = core.costs[variable];
    references.clear();
    for (int t : core.tablesOf[variable]) {
      const CoreTable &table = core.tables[t];
      const std::vector<double> &theirs = core.costs[other(table, variable)];
      references.push_back(static_cast<int>(std::min_element(theirs.begin(), theirs.end()) - theirs.begin()));
      for (int s = 0; s < count; ++s)
        sample[s] += table.costs[cell(table, variable, s, references.back())];
    }
    std::vector<char> mask(count, 1);
    bool any = false;
    for (int b = 0; b < count; ++b)
      for (int a = 0; a < count && mask[b]; ++a)
        if (a != b && mask[a] && sample[a] <= sample[b] && takesNoMore(variable, a, b) &&
            dominates(variable, a, b, sample[b] < kInfinity ? sample[a] - sample[b] : -kInfinity))
          mask[b] = 0, any = true;
    if (any)
      keep(variable, mask);
    return any;
  }

  /// Returns whether label a costs at most as much as label b for all labels of the neighbours. `more` is the cost of a
  /// minus that of b when every neighbour takes its reference label, or -infinity. Table by table, the neighbour's
  /// worst label replaces the reference label, so `more` only grows and the test can end early.
  bool dominates(int variable, int a, int b, double more) {
    bool early = more > -kInfinity;
    if (!early)
      more = core.costs[variable][a] - core.costs[variable][b];
    for (size_t k = 0; k < references.size(); ++k) {
      const CoreTable &table = core.tables[core.tablesOf[variable][k]];
      int partners = core.labels(other(table, variable));
      size_t step = table.u == variable ? 1 : core.labels(table.v);
      const double *ofA = &table.costs[cell(table, variable, a, 0)], *ofB = &table.costs[cell(table, variable, b, 0)];
      double worst = -kInfinity;
      if (early) {
        size_t reference = references[k] * step;
        worst = ofA[reference] - ofB[reference];
        more -= worst;
      }
      if ((dominanceLeft -= partners) < 0)
        return false;
      for (size_t p = 0, place = 0; p < static_cast<size_t>(partners); ++p, place += step)
        if (double difference = ofA[place] - ofB[place]; difference > worst && ofB[place] < kInfinity) {
          worst = difference;
          if (early && more + worst > 0)
            return false;
        }
      if ((more += worst) == kInfinity)
        return false;
    }
    return more <= 0;
  }

  void takeFromSlack() {
    int64_t taken = 0;
    for (size_t r = 0; r < core.slack.size(); ++r) {
      core.slack[r] -= taken += takenFrom[r];
      core.infeasible |= core.slack[r] < 0;
    }
    takenFrom.assign(core.slack.size() + 1, 0);
  }

  /// Removes rows that cannot exceed their slack, and rows whose usages all lie in a neighbouring row of at most as
  /// much slack. Returns whether any row was removed.
  bool dropRows() {
    int count = static_cast<int>(core.slack.size());
    takeFromSlack();
    std::vector<int64_t> most(count + 1, 0);
    std::vector<char> begins(count + 1, 0), ends(count + 1, 0);
    for (int i = 0; i < core.size(); ++i)
      for (const CoreUsage &usage : core.usages[i]) {
        int64_t largest = *std::max_element(usage.bytes.begin(), usage.bytes.end());
        most[usage.firstRow] += largest;
        most[usage.endRow] -= largest;
        begins[usage.firstRow] = ends[usage.endRow] = 1;
      }
    std::vector<int> kept; // the remaining rows
    int64_t load = 0;
    bool begun = false, ended = false; // whether a usage begins or ends since the last remaining row
    for (int r = 0; r < count; ++r) {
      load += most[r];
      begun |= begins[r] != 0;
      ended |= ends[r] != 0;
      if (load <= core.slack[r])
        continue;
      if (!kept.empty() && !ended && core.slack[r] <= core.slack[kept.back()]) {
        kept.back() = r;
      } else if (!kept.empty() && !begun && core.slack[r] >= core.slack[kept.back()]) {
        continue; // `ended` is kept: later rows are compared with the last remaining one
      } else {
        kept.push_back(r);
      }
      begun = ended = false;
    }
    takenFrom.assign(kept.size() + 1, 0);
    if (static_cast<int>(kept.size()) == count)
      return false;
    std::vector<int> newRow(count + 1);
    for (int r = 0, k = 0; r <= count; ++r) {
      newRow[r] = k;
      if (k < static_cast<int>(kept.size()) && kept[k] == r)
        ++k;
    }
    for (size_t k = 0; k < kept.size(); ++k) {
      core.slack[k] = core.slack[kept[k]];
      core.moment[k] = core.moment[kept[k]];
    }
    core.slack.resize(kept.size());
    core.moment.resize(kept.size());
    for (int i = 0; i < core.size(); ++i) {
      size_t before = core.usages[i].size();
      for (CoreUsage &usage : core.usages[i])
        usage.firstRow = newRow[usage.firstRow], usage.endRow = newRow[usage.endRow];
      normalize(i);
      if (core.usages[i].size() != before)
        push(i);
    }
    return true;
  }

  Reduction finish() {
    takeFromSlack();
    std::vector<int> newIndex(core.size(), -1);
    Core &left = reduction.core;
    left.constant = core.constant;
    left.quantum = core.quantum;
    left.infeasible = core.infeasible;
    left.slack = std::move(core.slack);
    left.moment = std::move(core.moment);
    for (int i = 0; i < core.size(); ++i) {
      if (gone[i])
        continue;
      newIndex[i] = left.size();
      left.costs.push_back(std::move(core.costs[i]));
      left.usages.push_back(std::move(core.usages[i]));
      reduction.variableOf.push_back(i);
      reduction.labelOf.push_back(std::move(labelOf[i]));
    }
    left.tablesOf.resize(left.size());
    for (size_t t = 0; t < core.tables.size(); ++t) {
      if (tableGone[t])
        continue;
      CoreTable &table = core.tables[t];
      table.u = newIndex[table.u];
      table.v = newIndex[table.v];
      for (int end : {table.u, table.v})
        left.tablesOf[end].push_back(static_cast<int>(left.tables.size()));
      left.tables.push_back(std::move(table));
    }
    return std::move(reduction);
  }

  Core core;
  const ReduceOptions options;
  int64_t dominanceLeft;
  std::vector<std::vector<int>> labelOf; // [variable][label] -> label before
  std::vector<char> gone, queued, queuedLater, tableGone;
  std::vector<char> appended;     // [variable]: whether its usages have to be normalized
  std::vector<int64_t> takenFrom; // [row]: change along the rows of bytes to subtract from the slack
  std::deque<int> queue, later;
  std::vector<int> references; // scratch of removeDominated: one label of each neighbour
  Reduction reduction;
};

} // namespace

Reduction kerf::search::reduce(Core core, const ReduceOptions &options) {
  return Reducer(std::move(core), options).run();
}
