// SPDX-License-Identifier: Apache-2.0
// Every op of the dialect on the device `ascend`, on the stand-ins of CANN's libraries: it has the results of the CPU,
// or a message that names it. The list of ops is that of docs/operators.md, which is made from their definitions, so
// that an op without a case here fails the test.
#include "kerf/Package/Half.h"
#include "kerf/Runtime/Device.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace kerf::runtime::test {
namespace {

using Json = nlohmann::ordered_json;
constexpr DType F32 = DType::F32, I64 = DType::I64, I32 = DType::I32, I8 = DType::I8, Bool = DType::Bool;

/// A tensor on the host.
struct Given {
  DType dtype = F32;
  Shape shape;
  std::vector<double> values;
};
/// Numbers of a normal distribution.
Given normals(const Shape &shape, DType dtype = F32) {
  static std::mt19937_64 engine(1);
  Given made{dtype, shape, {}};
  for (int64_t i = 0; i < elementsOf(shape); ++i)
    made.values.push_back(std::normal_distribution<double>()(engine));
  return made;
}
/// Numbers between 0.5 and 2.
Given positives(const Shape &shape) {
  Given made = normals(shape);
  for (double &value : made.values)
    value = 0.5 + 1.5 / (1 + std::exp(value));
  return made;
}
/// Integers that go round in [low, high], from `low` on.
Given integers(const Shape &shape, int64_t low, int64_t high, DType dtype = I64) {
  Given made{dtype, shape, {}};
  for (int64_t i = 0; i < elementsOf(shape); ++i)
    made.values.push_back(double(low + i * 7 % (high - low + 1)));
  return made;
}
Given number(double value, DType dtype = I64) { return {dtype, {}, {value}}; }

/// An instruction, its operands, and the types of its results.
struct Case {
  std::string op;
  Json attrs;
  std::vector<Given> operands;
  std::vector<std::pair<DType, Shape>> results;
  Mesh mesh = {};
  int64_t rank = 0;
};

std::vector<std::byte> encoded(const Given &given) {
  std::vector<std::byte> bytes(size_t(elementsOf(given.shape) * bytesOf(given.dtype)));
  std::byte *at = bytes.data();
  auto put = [&](auto value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  for (double value : given.values)
    switch (given.dtype) {
    case F32:
      put(float(value));
      break;
    case DType::BF16:
      put(bf16FromFloat(float(value)));
      break;
    case DType::F16:
      put(f16FromFloat(float(value)));
      break;
    case I64:
      put(int64_t(value));
      break;
    case I32:
      put(int32_t(value));
      break;
    default:
      put(int8_t(value));
    }
  return bytes;
}
std::vector<double> decoded(const std::vector<std::byte> &bytes, DType dtype) {
  std::vector<double> values;
  for (size_t at = 0; at < bytes.size(); at += size_t(bytesOf(dtype))) {
    auto get = [&](auto zero) {
      std::memcpy(&zero, bytes.data() + at, sizeof zero);
      return zero;
    };
    values.push_back(dtype == F32           ? double(get(float()))
                     : dtype == DType::BF16 ? double(floatFromBf16(get(uint16_t())))
                     : dtype == DType::F16  ? double(floatFromF16(get(uint16_t())))
                     : dtype == I64         ? double(get(int64_t()))
                     : dtype == I32         ? double(get(int32_t()))
                                            : double(get(int8_t())));
  }
  return values;
}

/// Returns the relative difference that numbers of a type may have: integers have none.
double toleranceOf(DType dtype) {
  switch (dtype) {
  case F32:
    return 2e-5;
  case DType::BF16:
  case DType::F16:
    return 1e-2;
  default:
    return 0;
  }
}

/// Runs a case on a device twice, and returns the results of the second launch.
Result<std::vector<std::vector<double>>> run(const Case &c, const std::string &on) {
  auto device = createDevice(on, {.rank = 0});
  if (!device)
    return device.error();
  package::Instruction instruction{c.op, {}, {}, c.attrs, "node"};
  KernelRequest request{instruction, {}, {}, c.mesh, c.rank};
  std::vector<std::shared_ptr<std::byte>> memory;
  auto place = [&](std::vector<TensorView> &to, DType dtype, const Shape &shape) -> Status {
    TensorView view{nullptr, dtype, shape};
    auto made = (*device)->allocate(view.bytes());
    if (!made)
      return made.error();
    memory.push_back(std::move(*made));
    view.data = memory.back().get();
    to.push_back(view);
    return ok();
  };
  Status done = ok();
  for (const Given &one : c.operands) {
    done = done ? place(request.operands, one.dtype, one.shape) : done;
    const std::vector<std::byte> bytes = encoded(one);
    done = done ? (*device)->copyIn(request.operands.back().data, bytes.data(), int64_t(bytes.size())) : done;
  }
  for (const auto &[dtype, shape] : c.results)
    done = done ? place(request.results, dtype, shape) : done;
  if (!done)
    return done.error();
  auto scratch = (*device)->scratchBytes(request);
  if (!scratch)
    return scratch.error();
  auto temporary = (*device)->allocate(*scratch);
  if (!temporary)
    return temporary.error();
  request.scratch = temporary->get();
  auto kernel = (*device)->bind(request);
  if (!kernel)
    return kernel.error();
  auto stream = (*device)->createStream(StreamKind::Compute);
  if (!stream)
    return stream.error();
  (*stream)->reserve(4);
  for (int launch = 0; launch < 2; ++launch)
    if (Status launched = (*kernel)->launch(**stream); !launched)
      return launched.error();
  if (Status status = (*stream)->synchronize(); !status)
    return status.error();
  std::vector<std::vector<double>> all;
  for (const TensorView &view : request.results) {
    std::vector<std::byte> bytes(size_t(view.bytes()));
    if (Status copied = (*device)->copyOut(bytes.data(), view.data, view.bytes()); !copied)
      return copied.error();
    all.push_back(decoded(bytes, view.dtype));
  }
  return all;
}

/// Cases of all ops that compute, in the order of docs/operators.md as far as that is readable.
std::vector<Case> cases() {
  std::vector<Case> all;
  const Shape s = {3, 8};
  const Given x = normals(s), y = normals(s);
  auto add = [&](const std::string &op, const Json &attrs, const std::vector<Given> &in,
                 const std::vector<std::pair<DType, Shape>> &out, const Mesh &mesh = {},
                 int64_t rank = 0) { all.push_back({op, attrs, in, out, mesh, rank}); };
  const Json none = Json::object();
  // Single elements.
  for (const char *op : {"negate", "abs", "sign", "exponential", "tanh", "logistic", "erf", "sine", "cosine", "atan",
                         "floor", "ceil", "round_nearest_even", "stop_gradient", "gelu"})
    for (DType dtype : {F32, DType::BF16, DType::F16})
      add(op, none, {{dtype, s, x.values}}, {{dtype, s}});
  for (const char *op : {"log", "sqrt", "rsqrt"})
    add(op, none, {positives(s)}, {{F32, s}});
  add("sync_gradient", {{"parameter", "w"}}, {x}, {{F32, s}});
  add("not", none, {integers(s, 0, 1, Bool)}, {{Bool, s}});
  add("not", none, {integers(s, -9, 9, I32)}, {{I32, s}});
  for (bool byTanh : {false, true})
    add("gelu_backward", {{"approximate", byTanh}}, {x, y}, {{F32, s}});
  for (const char *op : {"add", "subtract", "multiply", "divide", "maximum", "minimum"}) {
    add(op, none, {x, y}, {{F32, s}});
    add(op, none, {integers(s, -20, 20, I32), integers(s, 1, 5, I32)}, {{I32, s}});
  }
  add("power", none, {positives(s), y}, {{F32, s}});
  for (const char *op : {"and", "or"}) {
    add(op, none, {{Bool, {4}, {0, 0, 1, 1}}, {Bool, {4}, {0, 1, 0, 1}}}, {{Bool, {4}}});
    add(op, none, {integers(s, 0, 100, I32), integers(s, 3, 77, I32)}, {{I32, s}});
  }
  for (const char *direction : {"EQ", "NE", "LT", "LE", "GT", "GE"})
    add("compare", {{"direction", direction}}, {integers(s, 0, 3, I32), integers(s, 1, 2, I32)}, {{Bool, s}});
  add("select", none, {integers(s, 0, 1, Bool), x, y}, {{F32, s}});
  add("convert", none, {x}, {{DType::F16, s}});
  add("convert", none, {{F32, s, integers(s, -50, 50).values}}, {{I64, s}});
  add("accumulate", none, {x, normals(s, DType::BF16)}, {{F32, s}});
  add("reduce_precision", {{"mantissa_bits", 7}, {"min_exponent", -126}}, {x}, {{F32, s}});
  add("is_nan", none, {{F32, {4}, {1, NAN, -INFINITY, 0}}}, {{Bool, {4}}});
  // Layout.
  add("constant", {{"value", {1.5, -2.0, 0.25}}}, {}, {{F32, {3}}});
  add("constant", {{"value", {7}}}, {}, {{I64, {2, 3}}});
  add("iota", {{"dimension", 1}}, {}, {{I32, {2, 3}}});
  add("iota", {{"dimension", 0}}, {number(5)}, {{I64, {2, 2}}});
  add("broadcast_in_dim", {{"broadcast_dimensions", {1, 2}}}, {x}, {{F32, {2, 3, 8}}});
  add("transpose", {{"permutation", {2, 0, 1}}}, {normals({2, 3, 4})}, {{F32, {4, 2, 3}}});
  add("slice", {{"start", {0, 1}}, {"limit", {3, 8}}, {"strides", {2, 3}}}, {x}, {{F32, {2, 3}}});
  add("pad", {{"low", {1, 0}}, {"high", {0, 2}}, {"interior", {1, 0}}}, {x, number(2, F32)}, {{F32, {6, 10}}});
  add("concatenate", {{"dimension", 1}}, {x, normals({3, 2})}, {{F32, {3, 10}}});
  const Mesh two{{{"a", 2}}};
  for (int64_t rank : {0, 1}) {
    add("shard_offset", {{"axes", {0, 1, 2}}, {"chunk", 3}}, {}, {{I64, {}}}, two, rank);
    add("local_slice", {{"dim", 1}, {"axes", {0, 1, 2}}}, {normals({3, 7})}, {{F32, {3, 4}}}, two, rank);
    for (const char *fill : {"sum", "max", "min"})
      add("mask_padding", {{"dim", 1}, {"axes", {0, 1, 2}}, {"size", 11}, {"fill", fill}}, {x}, {{F32, s}}, two, rank);
  }
  // Reductions and products.
  for (const char *kind : {"sum", "max", "min"})
    add("reduce", {{"kind", kind}, {"dimensions", {0, 2}}}, {normals({2, 3, 4})}, {{F32, {3}}});
  add("count_nonfinite", none, {{F32, {5}, {1, NAN, INFINITY, 0, -INFINITY}}}, {{I64, {}}});
  const Json plain = {{"lhs_batching", Json::array()},
                      {"rhs_batching", Json::array()},
                      {"lhs_contracting", {1}},
                      {"rhs_contracting", {0}}};
  add("dot_general", plain, {x, normals({8, 5})}, {{F32, {3, 5}}});
  add("dot_general", plain, {x, normals({8, 5}), normals({3, 5})}, {{F32, {3, 5}}});
  // Batches and transposed factors; batches of groups, as of experts.
  add("dot_general", {{"lhs_batching", {0}}, {"rhs_batching", {2}}, {"lhs_contracting", {1}}, {"rhs_contracting", {1}}},
      {normals({2, 4, 3}), normals({5, 4, 2})}, {{F32, {2, 3, 5}}});
  add("dot_general", {{"lhs_batching", {0}}, {"rhs_batching", {0}}, {"lhs_contracting", {3}}, {"rhs_contracting", {1}}},
      {normals({3, 2, 4, 6}), normals({3, 6, 5})}, {{F32, {3, 2, 4, 5}}});
  // Softmax, norms and losses: the operands of gradients need not come from the forward op.
  add("softmax", {{"dimension", 1}}, {x}, {{F32, s}});
  add("softmax_backward", {{"dimension", 1}}, {x, y}, {{F32, s}});
  add("layer_norm", {{"epsilon", 1e-5}}, {x, normals({8}), normals({8})}, {{F32, s}, {F32, {3}}, {F32, {3}}});
  add("layer_norm_backward", none, {x, normals({8}), normals({3}), positives({3}), y},
      {{F32, s}, {F32, {8}}, {F32, {8}}});
  add("rms_norm", {{"epsilon", 1e-5}}, {x, normals({8})}, {{F32, s}, {F32, {3}}});
  add("rms_norm_backward", none, {x, normals({8}), positives({3}), y}, {{F32, s}, {F32, {8}}});
  const Given labels{I64, {3}, {2, -100, 7}};
  add("cross_entropy", {{"ignore_index", -100}}, {x, labels}, {{F32, {3}}, {F32, {3}}});
  add("cross_entropy_backward", {{"ignore_index", -100}}, {x, labels, positives({3}), normals({3})}, {{F32, s}});
  // Lookups.
  add("gather", {{"axis", 1}}, {x, integers({2, 2}, -8, 7)}, {{F32, {3, 2, 2}}});
  add("scatter_add", {{"axis", 1}, {"size", 8}}, {integers({4}, -8, 7), normals({3, 4})}, {{F32, s}});
  add("embedding", {{"rows", 6}}, {normals({6, 4}), integers({2, 3}, 0, 5)}, {{F32, {2, 3, 4}}});
  add("embedding", {{"rows", 6}}, {normals({3, 4}), integers({2, 3}, 0, 5), number(3)}, {{F32, {2, 3, 4}}});
  add("embedding_backward", {{"rows", 6}}, {integers({2, 5}, 0, 3), normals({2, 5, 4})}, {{F32, {6, 4}}});
  add("take_along", {{"batch_dims", 1}, {"size", 8}}, {x, integers({3, 4}, -8, 7, I32)}, {{F32, {3, 4}}});
  add("take_along_backward", {{"batch_dims", 1}, {"size", 8}}, {integers({3, 4}, -8, 7, I32), normals({3, 4})},
      {{F32, s}});
  // Routing.
  add("top_k", none, {x}, {{F32, {3, 2}}, {I64, {3, 2}}});
  add("top_k_backward", none, {{I64, {3, 2}, {0, 7, 3, 1, 6, 2}}, normals({3, 2})}, {{F32, s}});
  const Given tokens = normals({2, 5, 4}), slots = normals({3, 2, 4, 4}), chosen = integers({2, 5, 2}, 0, 2),
              weights = normals({2, 5, 2});
  add("dispatch", {{"experts", 3}}, {tokens, chosen, weights}, {{F32, {3, 2, 4, 4}}});
  add("combine", {{"experts", 3}}, {slots, chosen, weights}, {{F32, {2, 5, 4}}});
  add("combine_backward", {{"experts", 3}}, {slots, chosen, tokens}, {{F32, {2, 5, 2}}});
  // Attention of 4 heads over 2 heads of keys, whole and as one step of a ring of 2 ranks.
  const Given q = normals({1, 6, 4, 4}), k = normals({1, 6, 2, 4}), v = normals({1, 6, 2, 4}),
              o = normals({1, 6, 4, 4}), lse = positives({1, 4, 6}), dOut = normals({1, 6, 4, 4});
  const std::vector<std::pair<DType, Shape>> out = {{F32, q.shape}, {F32, lse.shape}},
                                             gradients = {{F32, q.shape}, {F32, k.shape}, {F32, v.shape}};
  for (bool isCausal : {false, true}) {
    const Json attrs = isCausal ? Json{{"scale", 0.5}, {"causal", true}} : Json{{"scale", 0.5}};
    add("attention", attrs, {q, k, v}, out);
    add("attention_backward", attrs, {q, k, v, o, lse, dOut}, gradients);
    Json step = attrs;
    step["axes"] = {0, 1, 2};
    step["step"] = 1;
    for (int64_t rank : {0, 1}) {
      add("attention_block", step, {o, lse, q, k, v}, out, two, rank);
      add("attention_block_backward", step, {q, q, k, v, o, lse, dOut}, gradients, two, rank);
    }
  }
  // Random numbers.
  add("dropout", {{"rate", 0.25}}, {x, number(7), number(3), number(1)}, {{F32, s}});
  const Mesh four{{{"a", 2}, {"b", 2}}};
  for (int64_t rank : {0, 3})
    add("random_key", {{"stream", 5}, {"axes", {0, 1, 2, 1, 1, 2}}}, {number(1e15), number(12)}, {{I32, {}}}, four,
        rank);
  add("random", none, {integers(s, -2000000000, 2000000000, I32)}, {{F32, s}});
  for (int64_t bits : {1, 2, 4}) {
    add("pack", {{"bits", bits}}, {integers({2, 16}, -128, 127, I8)}, {{I8, {2, 2 * bits}}});
    add("unpack", {{"bits", bits}}, {integers({3, 5}, -128, 127, I8)}, {{I8, {3, 40 / bits}}});
  }
  // Windows.
  const Json window = {{"strides", {1, 2}}, {"dilations", {1, 1}}, {"low", {1, 0}}, {"high", {1, 1}}};
  const Given image = normals({2, 4, 5, 6}), kernel = normals({6, 2, 3, 3}), pixels = normals({2, 6, 5, 3});
  add("convolution", window, {image, kernel}, {{F32, pixels.shape}});
  add("convolution_transpose", window, {pixels, kernel}, {{F32, image.shape}});
  add("convolution_kernel", window, {image, pixels}, {{F32, kernel.shape}});
  Json pool = {{"window", {1, 1, 2, 3}},
               {"strides", {1, 1, 2, 2}},
               {"dilations", {1, 1, 1, 1}},
               {"low", {0, 0, 1, 1}},
               {"high", {0, 0, 0, 0}}};
  for (const char *kind : {"sum", "max", "min"}) {
    pool["kind"] = kind;
    add("reduce_window", pool, {image}, {{F32, {2, 4, 3, 3}}});
    if (std::string(kind) != "sum")
      add("select_and_scatter", pool, {image, normals({2, 4, 3, 3})}, {{F32, image.shape}});
  }
  return all;
}

/// Ops that have no kernel on any device, and what becomes of them before a program runs.
const std::map<std::string, std::string> kWithoutKernel = {
    {"all_gather", "collective"},
    {"all_reduce", "collective"},
    {"all_to_all", "collective"},
    {"collective_permute", "collective"},
    {"reduce_scatter", "collective"},
    {"ring_shift", "a collective_permute"},
    {"transfer", "message"},
    {"wait", "the wait for a collective, message or copy"},
    {"offload", "copy to the host"},
    {"prefetch", "copy from the host"},
    {"reshape", "another shape of the same memory"},
    {"reshard", "collectives"},
    {"ring_balance", "slices and collectives"},
    {"mesh", "declaration"},
    {"call", "its function's ops"},
    {"map", "its body's ops"},
    {"yield", "result of a map"},
};
/// Ops that no Ascend NPU can compute, each with a word of the reason that the message must have.
const std::map<std::string, Case> &refused() {
  static const std::map<std::string, Case> all = {
      {"quantize", {"quantize", Json::object(), {normals({4}), number(1, F32)}, {{DType::F8E4M3FN, {4}}}}},
  };
  return all;
}

std::set<std::string> opsOfTheDialect() {
  std::ifstream page(KERF_OPERATORS_PAGE);
  std::set<std::string> names;
  const std::string start = "### `kerf.";
  for (std::string line; std::getline(page, line);)
    if (line.starts_with(start))
      names.insert(line.substr(start.size(), line.find('`', start.size()) - start.size()));
  return names;
}

class AscendOps : public testing::Test {
protected:
  void SetUp() override {
    setenv("KERF_ASCEND_LIBRARIES", KERF_CANN_STANDINS, 0);
    setenv("KERF_STANDIN_DEVICES", "2", 0);
  }
};

TEST_F(AscendOps, EachHasTheCpusResults) {
  for (const Case &c : cases()) {
    SCOPED_TRACE(c.op + " " + c.attrs.dump() + " rank " + std::to_string(c.rank));
    auto expected = run(c, "cpu"), got = run(c, "ascend:0");
    ASSERT_TRUE(expected) << expected.error().message;
    ASSERT_TRUE(got) << got.error().message;
    for (size_t r = 0; r < c.results.size(); ++r)
      for (size_t i = 0; i < (*expected)[r].size(); ++i) {
        const double a = (*got)[r][i], b = (*expected)[r][i];
        const bool isEqual = a == b || (std::isnan(a) && std::isnan(b));
        ASSERT_TRUE(isEqual || std::fabs(a - b) <= toleranceOf(c.results[r].first) * std::max(1.0, std::fabs(b)))
            << "result " << r << ", element " << i << ": " << a << ", and " << b << " on the CPU";
      }
  }
}

TEST_F(AscendOps, TheOthersAreRefusedByName) {
  for (const auto &[op, c] : refused()) {
    auto got = run(c, "ascend:0");
    ASSERT_FALSE(got) << op;
    EXPECT_NE(got.error().message.find("'" + op + "'"), std::string::npos) << got.error().message;
    EXPECT_NE(got.error().message.find("train on the device cpu"), std::string::npos) << got.error().message;
  }
}

TEST_F(AscendOps, TheDialectHasNoOthers) {
  const std::set<std::string> ops = opsOfTheDialect();
  EXPECT_GT(ops.size(), 90u) << "of " << KERF_OPERATORS_PAGE;
  std::set<std::string> known;
  for (const Case &c : cases())
    known.insert(c.op);
  for (const auto &[op, c] : refused())
    EXPECT_TRUE(known.insert(op).second) << op << " both runs and is refused";
  for (const auto &[op, becomes] : kWithoutKernel) {
    EXPECT_TRUE(known.insert(op).second) << op << " has a kernel";
    // The CPU has no kernel of it either.
    auto got = run({op, Json::object(), {}, {}}, "cpu");
    ASSERT_FALSE(got) << op;
    EXPECT_NE(got.error().message.find("no kernel for the op"), std::string::npos) << got.error().message;
  }
  for (const std::string &op : ops)
    EXPECT_TRUE(known.contains(op)) << op << " has no case";
  for (const std::string &op : known)
    EXPECT_TRUE(ops.contains(op)) << op << " is no op of the dialect";
}

} // namespace
} // namespace kerf::runtime::test
