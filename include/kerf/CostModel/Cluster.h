// SPDX-License-Identifier: Apache-2.0
// Clusters: the devices of the machines, their speed and memory, and the network links at each level. A cluster is read
// from a cluster.json file (docs/cost-model.md).
//
//   levels, innermost first:  [{"nvlink", size 8}, {"infiniband", size 16}]    128 ranks
//   Ranks fill the innermost level first: rank 19 is device 3 of node 2.
//
// A mixed cluster consists of groups, each with a device and levels of its own, and of links between the groups. Ranks
// are numbered group by group: with two such groups, rank 130 is device 2 of node 0 of group 1.
#pragma once

#include "kerf/Compression/Codec.h"
#include "kerf/Support/Result.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kerf {

/// The efficiency of a device: which shares of its peak rates kernels reach, and what their launch costs. The numbers
/// come from `device.curves` of the cluster file or from micro-benchmarks of the device or a similar one;
/// docs/cost-model.md lists the source of each number.
struct DeviceCurves {
  double processors = 1;          // units that compute tiles of a product in parallel: SMs, cube cores or CPU cores
  double productEfficiency = 1;   // share of peak FLOP/s that a full tile of a long matrix product reaches
  double productOverheadK = 0;    // start-up and end of a product's tile, as a number of additional elements of k
  double productQuantization = 0; // 1: a partial last wave of tiles takes as long as a full one; 0: in proportion
  double attentionEfficiency = 1; // share of peak FLOP/s that fused attention reaches on long sequences
  double attentionHalfLength = 0; // sequence length (keys) at which fused attention reaches half of that share
  double memoryEfficiency = 1;    // share of memory bandwidth that a long pointwise kernel reaches
  double launchSeconds = 0;       // seconds between the end of a kernel and the start of one that depends on it
  double collectiveSeconds = 0;   // seconds from the call of a collective to its first byte
  double sustained = 1;           // clock rate during hours of training, divided by the rate in a short benchmark
  double contextBytes = 0;        // bytes that driver, libraries and collectives occupy outside the allocator
  // Shares of memory bandwidth that kernels of the other classes reach.
  double productMemory = 0.8, reductionMemory = 0.7, gatherMemory = 0.4, movementMemory = 0.7;
  // Shares of peak FLOP/s that pointwise (and movement) kernels and reduction (and gather) kernels reach.
  double pointwiseFlops = 0.1, reductionFlops = 0.1;
  // Loss of products with short dimensions on a CPU core, as numbers of additional rows (m) and columns (n).
  double productOverheadM = 0, productOverheadN = 0;
  double productCallSeconds = 0; // seconds of one library call for each product of a batch on a CPU core
  double attentionHalfWidth = 0; // head size at which attention's exponentials take as long as its products
  // Last-level cache: its size in bytes, and how many times faster than memory it delivers bytes.
  double cacheBytes = 0, cacheSpeedup = 1;
  // Resources that ranks share if they are threads of one machine; 0: each device has its own.
  double hostCores = 0;           // cores of the machine, in units of a core that runs alone
  double hostMemoryBandwidth = 0; // bytes/s of all cores of the machine together
  double reduceShare = 1;         // bytes/s that a collective can sum, divided by the bytes/s that it can move
  /// Share of peak FLOP/s that long fused attention reaches with the device vendor's own kernels (cuDNN,
  /// FlashAttention); 0: as `attentionEfficiency`.
  double vendorAttention = 0;
  /// Share of the product rate that batched 16-bit products reach if a row of a factor is no multiple of 16 bytes, so
  /// that the matrix units cannot be used.
  double unalignedProducts = 1;
  /// Seconds in which the host issues a kernel, divided by those of the host that trainers' issue times were measured
  /// on (DGX A100).
  double issueScale = 1;
  bool operator==(const DeviceCurves &) const = default;
};

/// The specification of a device: its memory, peak rates and efficiency. (The device that executes
/// programs is kerf::runtime::Device.)
struct DeviceSpec {
  std::string kind;                        // "cpu", "cuda" or "ascend"
  std::string name;                        // product name, for example "A100-SXM4-80GB"
  int64_t memoryBytes = 0;                 // bytes of device memory
  std::map<std::string, double> peakFlops; // peak FLOP/s of dense products, by element type ("f32", "bf16", ...)
  double memoryBandwidth = 0;              // bytes/s of device memory
  double hostBandwidth = 0;                // bytes/s of copies to or from the host's memory; 0: not specified
  DeviceCurves curves;                     // shares of these peaks that kernels reach
  /// Measured speeds of gradient codecs, by name (`device.codecs` of the cluster file). codecCurve() estimates others.
  std::map<std::string, compression::CodecCurve, std::less<>> codecs;
  /// The runtime's device with whose rules the memory of programs is planned, as --device names it; empty: that of
  /// `kind`. No part of cluster files.
  std::string memoryDevice;
  /// Whether the memory of programs is planned for runs with --deterministic, whose collectives can need more scratch
  /// memory. No part of cluster files.
  bool memoryDeterministic = false;
};

/// One level of the network: how units of the level below (devices, nodes, racks, ...) are connected.
struct Level {
  std::string name;           // name of the level, for example "nvlink" or "infiniband"
  int64_t size = 1;           // number of units of the level below that one unit of this level contains
  double bandwidth = 0;       // bytes/s per device and direction
  double latency = 0;         // seconds per message
  double nodeBandwidth = 0;   // bytes/s that all devices of one unit of the level below can send together
  double switchBandwidth = 0; // measured bus bandwidth, in bytes/s, of all-reduces that switches sum; 0: they cannot
};

/// The network link between two groups of a mixed cluster.
struct GroupLink {
  double bandwidth = 0;     // bytes/s per device and direction
  double latency = 0;       // seconds per message
  double nodeBandwidth = 0; // bytes/s that one node can send to other groups; 0: `bandwidth` of each of its devices
};

/// The machines that a plan is made for.
struct Cluster {
  std::string name;                          // name for messages and reports
  DeviceSpec device;                         // device of every rank; not set for a mixed cluster, see `groups`
  std::vector<Level> levels;                 // network levels, innermost first; empty for a mixed cluster
  double pricePerHour = 0;                   // price of one device for one hour, in any currency; 0: not specified
  std::map<std::string, std::string> source; // where the numbers of the cluster file come from, by key of the file
  /// Number of ranks in use: the first ones of the cluster. It is at most the product of the level sizes; the last unit
  /// of a level may be used in part. For a mixed cluster it is the sum over the groups.
  int64_t usedRanks = 1;
  /// The groups of a mixed cluster: two or more clusters that are not mixed themselves. Empty: the cluster
  /// is not mixed.
  std::vector<Cluster> groups;
  /// Links between the groups of a mixed cluster. A single entry connects every pair of groups. With several entries,
  /// entry i connects groups i and i + 1, and messages between distant groups pass through the groups in between.
  std::vector<GroupLink> groupLinks;

  /// Returns whether the cluster consists of groups with different devices or networks.
  bool mixed() const { return !groups.empty(); }
  /// Returns the number of ranks in use.
  int64_t ranks() const { return usedRanks; }
  /// Returns the number of devices of a full unit of level `level`: the product of the sizes of levels 0 to `level`.
  int64_t devicesPerUnit(size_t level) const;
};

/// Returns the built-in efficiency curves of a device: which shares of the peak FLOP/s and of the memory bandwidth its
/// kernels reach. The device is looked up by kind ("cuda") and by the beginning of its name ("V100"). Returns nothing
/// for an unknown device.
std::optional<DeviceCurves> knownCurves(std::string_view kind, std::string_view name);
/// Returns a list of the devices for which Kerf has efficiency curves, for error messages: "cuda (V100, T4, ...),
/// ascend (...), cpu".
std::string knownDevices();

/// Parses the text of a cluster file. Fails if a number is missing, not positive, not finite, too large, or contradicts
/// another number. `where` is the name of the file in error messages.
Result<Cluster> parseCluster(std::string_view json, const std::string &where);
/// Reads and parses the cluster file `path`; fails as parseCluster does, or if the file cannot be read.
Result<Cluster> readCluster(const std::string &path);
/// Returns the text of a cluster file for `cluster`. parseCluster reads the text back to an equal cluster, and equal
/// clusters give identical text.
std::string toJson(const Cluster &cluster);
/// Writes `cluster` as a cluster file to `path`.
Status writeCluster(const Cluster &cluster, const std::string &path);

/// Returns the part of the cluster that its first `ranks` ranks occupy. Levels shrink to the units in use: the first 12
/// ranks of levels 8 x 16 have levels [8, 2], the first 4 ranks have [4, 1]. Groups without a rank in use are removed;
/// if one group remains, the result is not mixed. Fails unless `ranks` is between 1 and the ranks of the cluster.
Result<Cluster> firstRanks(const Cluster &cluster, int64_t ranks);

/// Returns the groups of a mixed cluster as text for messages: "64 A100-SXM4-80GB + 64 V100-SXM2-32GB".
std::string groupsText(const Cluster &cluster);

/// Checks that `cluster` is not mixed, for commands that need identical devices. `command` is the command's name in the
/// error message, for example "kerf compile".
Status checkOneGroup(const Cluster &cluster, std::string_view command);

/// Returns a cluster of `ranks` CPU threads of the machine that Kerf runs on. Its speed is given by the documented
/// constants of lib/CostModel/ThisMachine.cpp, not measured, so that every call on one machine returns the same
/// cluster. Fails if `ranks` is below 1 or above the supported number of threads.
Result<Cluster> thisMachine(int64_t ranks);

} // namespace kerf
