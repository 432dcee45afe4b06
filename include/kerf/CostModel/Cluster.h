// SPDX-License-Identifier: Apache-2.0
// The machines: devices, their speed and memory, and the links at each level, as cluster.json says it
// (docs/cost-model.md).
//
//   levels, inside out:  [{"nvlink", size 8}, {"infiniband", size 16}]    128 ranks
//   rank 19 = device 3 of node 2: the innermost level is filled first.
//
// A mixed cluster has groups, each with a device and levels of its own, and links between them. Ranks of group 0 come
// first: of two such groups, rank 130 is device 2 of node 0 of group 1.
#pragma once

#include "kerf/Support/Result.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kerf {

/// What a device reaches of its peaks, as `device.curves` of the cluster file says or a micro-benchmark of the device
/// (or one like it) gave: docs/cost-model.md has the row behind each number.
struct DeviceCurves {
  double processors = 1;          // that tiles of a product are dealt to: SMs, cube cores, cores
  double productEfficiency = 1;   // share of peak FLOP/s of a full tile in the middle of a long product
  double productOverheadK = 0;    // start and end of a tile, as elements of k
  double productQuantization = 0; // 1: a last wave takes as long as a full one; 0: waves can be part full
  double attentionEfficiency = 1; // share of peak FLOP/s of fused attention on long sequences
  double attentionHalfLength = 0; // keys at which it reaches half of that
  double memoryEfficiency = 1;    // share of memory bandwidth of a long pointwise kernel
  double launchSeconds = 0;       // between the ends and starts of dependent kernels on the device
  double collectiveSeconds = 0;   // from a collective's call to its first byte
  double sustained = 1;           // clock in hours of training over clock in a short benchmark
  double contextBytes = 0;        // memory that the driver, libraries and collectives keep, outside any allocator
  // Shares of memory bandwidth and of the dtype's peak FLOP/s by class, where it is not
  // memoryEfficiency.
  double productMemory = 0.8, reductionMemory = 0.7, gatherMemory = 0.4, movementMemory = 0.7;
  double pointwiseFlops = 0.1, reductionFlops = 0.1; // movement as pointwise, gather as reduction
  // A core's products, beside productOverheadK: short rows and columns, and the call of the library for each of a
  // batch.
  double productOverheadM = 0, productOverheadN = 0; // elements
  double productCallSeconds = 0;
  double attentionHalfWidth = 0; // head size at which attention's products take as long as the exponentials between
  // Of a kernel's bytes, those that a cache holds move faster.
  double cacheBytes = 0, cacheSpeedup = 1;
  // What ranks that are threads of one machine share. 0: a device has its own.
  double hostCores = 0;           // cores of the machine, in cores that run alone
  double hostMemoryBandwidth = 0; // bytes/s of all of them together
  double reduceShare = 1;         // rate of bytes that a collective adds over that of bytes that it moves
  bool operator==(const DeviceCurves &) const = default;
};

struct Device {
  std::string kind; // "cpu", "cuda", "ascend"
  std::string name;
  int64_t memoryBytes = 0;
  std::map<std::string, double> peakFlops; // dtype -> FLOP/s, dense
  double memoryBandwidth = 0;              // bytes/s
  double hostBandwidth = 0;                // bytes/s of copies to the host's memory, and of copies back; 0: not said
  DeviceCurves curves;
};

struct Level {
  std::string name;
  int64_t size = 1;         // units of the level below that one unit of this level joins
  double bandwidth = 0;     // bytes/s per device and direction
  double latency = 0;       // seconds
  double nodeBandwidth = 0; // bytes/s that one unit of the level below can send in all
  /// Bus bandwidth of all-reduces that the switches of this level add (NVLink SHARP, SHARP), measured; 0: they cannot.
  double switchBandwidth = 0;
};

/// What joins two groups of a mixed cluster.
struct Between {
  double bandwidth = 0; // bytes/s per device and direction
  double latency = 0;   // seconds
  /// Bytes/s that one node (a unit of its group's innermost level) can send to other groups in all; 0: its devices x
  /// bandwidth.
  double nodeBandwidth = 0;
};

struct Cluster {
  std::string name;
  Device device;             // of a mixed cluster: nothing, see `groups`
  std::vector<Level> levels; // inside out; likewise
  double pricePerHour = 0;   // per device; 0: not said
  std::map<std::string, std::string> source;
  /// The ranks that are used: the first ones. At most the product of the sizes; the last unit of a level may be part
  /// full. Of a mixed cluster: the sum of its groups'.
  int64_t usedRanks = 1;
  /// Two or more, none of them mixed itself; empty: the cluster is one group.
  std::vector<Cluster> groups;
  /// One entry: it joins every pair of groups. More: entry i joins groups i and i + 1, and groups further apart are
  /// joined through those between them.
  std::vector<Between> between;

  bool mixed() const { return !groups.empty(); }
  int64_t ranks() const { return usedRanks; }
  /// Devices that one unit of `level` holds when full: the product of the sizes up to and including it.
  int64_t devicesPerUnit(size_t level) const;
};

/// Returns the curves of a device that Kerf knows by its kind and the beginning of its name; nothing for others.
std::optional<DeviceCurves> knownCurves(std::string_view kind, std::string_view name);
/// Returns the devices that have curves, for messages: "cuda (V100, T4, ...), ascend (...), cpu".
std::string knownDevices();

/// `where` is the file name, for messages. Refuses what is missing, not positive, not finite, contradicts or overflows.
Result<Cluster> parseCluster(std::string_view json, const std::string &where);
Result<Cluster> readCluster(const std::string &path);
/// The text that parseCluster reads back to an equal cluster; the same bytes for equal clusters.
std::string toJson(const Cluster &cluster);
Status writeCluster(const Cluster &cluster, const std::string &path);

/// The first `ranks` ranks, innermost level filled first. Levels shrink to what is used: 12 of 8 x 16 is [8, 2] with 12
/// ranks, 4 of it is [4, 1]. Groups of which none is used are left out: the ranks of the first group are no mixed
/// cluster.
Result<Cluster> firstRanks(const Cluster &cluster, int64_t ranks);

/// "64 A100-SXM4-80GB + 64 V100-SXM2-32GB": what the groups hold, for messages.
std::string groupsText(const Cluster &cluster);

/// Refuses mixed clusters for what (`command`, "kerf plan") needs all ranks to be alike.
Status checkOneGroup(const Cluster &cluster, std::string_view command);

/// `ranks` threads of this machine, with the documented constants of lib/CostModel/ThisMachine.cpp: the same on every
/// call on one machine.
Result<Cluster> thisMachine(int64_t ranks);

} // namespace kerf
