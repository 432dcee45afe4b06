// SPDX-License-Identifier: Apache-2.0
// Attributes for meshes and shardings: their text form, and the conversion to and from the plain data of kerf/Sharding.
#include "kerf/Dialect/Kerf/KerfDialect.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

#define GET_ATTRDEF_CLASSES
#include "kerf/Dialect/Kerf/KerfAttrs.cpp.inc"

void KerfDialect::registerKerfAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kerf/Dialect/Kerf/KerfAttrs.cpp.inc"
      >();
}

//===-- mesh: <"data"=2, "model"=4> -------------------------------------------------------------------------------===//

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    int64_t size;
    if (parser.parseString(&name) || parser.parseEqual() || parser.parseInteger(size))
      return failure();
    names.push_back(StringAttr::get(parser.getContext(), name));
    sizes.push_back(size);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseAxis, " in mesh"))
    return {};
  return parser.getChecked<MeshAttr>(parser.getContext(), names, sizes);
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(llvm::zip(getNames(), getSizes()), printer,
                        [&](auto axis) { printer << std::get<0>(axis) << "=" << std::get<1>(axis); });
  printer << ">";
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<StringAttr> names,
                               ArrayRef<int64_t> sizes) {
  constexpr int64_t kMostRanks = int64_t{1} << 24;
  int64_t ranks = 1;
  for (auto [i, name] : llvm::enumerate(names)) {
    if (llvm::is_contained(names.take_front(i), name))
      return emitError() << "axis " << name << " is named twice in the mesh; each axis needs its own name";
    if (sizes[i] < 1)
      return emitError() << "axis " << name << " has size " << sizes[i] << "; a size is at least 1";
    if (sizes[i] > kMostRanks / ranks)
      return emitError() << "axis " << name << " of size " << sizes[i] << " gives the mesh more than " << kMostRanks
                         << " ranks; give the axes smaller sizes";
    ranks *= sizes[i];
  }
  return success();
}

Mesh MeshAttr::toMesh() const {
  Mesh mesh;
  for (auto [name, size] : llvm::zip(getNames(), getSizes()))
    mesh.axes.push_back({name.str(), size});
  return mesh;
}

MeshAttr MeshAttr::fromMesh(MLIRContext *context, const Mesh &mesh) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (const MeshAxis &axis : mesh.axes) {
    names.push_back(StringAttr::get(context, axis.name));
    sizes.push_back(axis.size);
  }
  return get(context, names, sizes);
}

//===-- axis: "model" or "model":(1)2 -----------------------------------------------------------------------------===//

namespace {

FailureOr<AxisAttr> parseAxis(AsmParser &parser) {
  std::string name;
  int64_t before = 1, size = 0;
  if (parser.parseString(&name))
    return failure();
  if (succeeded(parser.parseOptionalColon())) {
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseLParen() || parser.parseInteger(before) || parser.parseRParen() || parser.parseInteger(size))
      return failure();
    if (before < 1 || size < 2)
      return parser.emitError(at) << "the sub-axis (" << before << ")" << size
                                  << " is (before)size; before must be at least 1 and size at least 2";
  }
  return AxisAttr::get(parser.getContext(), StringAttr::get(parser.getContext(), name), before, size);
}

void printAxis(AsmPrinter &printer, AxisAttr axis) {
  printer << axis.getName();
  if (axis.getSize())
    printer << ":(" << axis.getBefore() << ")" << axis.getSize();
}

FailureOr<DimAttr> parseDim(AsmParser &parser) {
  SmallVector<AxisAttr> axes;
  int64_t chunk = 0;
  auto parseOne = [&]() -> ParseResult {
    FailureOr<AxisAttr> axis = parseAxis(parser);
    if (failed(axis))
      return failure();
    axes.push_back(*axis);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseOne))
    return failure();
  if (succeeded(parser.parseOptionalSlash())) {
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseInteger(chunk))
      return failure();
    if (chunk < 1 || axes.empty())
      return parser.emitError(at) << "a dimension with " << axes.size() << " axes has chunk " << chunk
                                  << "; a chunk needs at least 1 axis and must be at least 1";
  }
  return DimAttr::get(parser.getContext(), axes, chunk);
}

void printDim(AsmPrinter &printer, DimAttr dim) {
  printer << "{";
  llvm::interleaveComma(dim.getAxes(), printer, [&](AxisAttr axis) { printAxis(printer, axis); });
  printer << "}";
  if (dim.getChunk())
    printer << "/" << dim.getChunk();
}

} // namespace

Attribute AxisAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<AxisAttr> axis = parseAxis(parser);
  return failed(axis) || parser.parseGreater() ? AxisAttr() : *axis;
}

void AxisAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printAxis(printer, *this);
  printer << ">";
}

Attribute DimAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<DimAttr> dim = parseDim(parser);
  return failed(dim) || parser.parseGreater() ? DimAttr() : *dim;
}

void DimAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printDim(printer, *this);
  printer << ">";
}

//===-- sharding: <[{"data"}, {}], partial = ["model"]> -----------------------------------------------------------===//

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<DimAttr> dims;
  SmallVector<AxisAttr> partial;
  ReduceKind kind = ReduceKind::Sum;
  auto parseOneDim = [&]() -> ParseResult {
    FailureOr<DimAttr> dim = parseDim(parser);
    if (failed(dim))
      return failure();
    dims.push_back(*dim);
    return success();
  };
  auto parseOneAxis = [&]() -> ParseResult {
    FailureOr<AxisAttr> axis = parseAxis(parser);
    if (failed(axis))
      return failure();
    partial.push_back(*axis);
    return success();
  };
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOneDim))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseKeyword("partial"))
      return {};
    if (succeeded(parser.parseOptionalKeyword("max")))
      kind = ReduceKind::Max;
    else if (succeeded(parser.parseOptionalKeyword("min")))
      kind = ReduceKind::Min;
    if (parser.parseEqual() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOneAxis))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), dims, partial, kind);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getDims(), printer, [&](DimAttr dim) { printDim(printer, dim); });
  printer << "]";
  if (!getPartial().empty()) {
    printer << ", partial"
            << (getPartialKind() == ReduceKind::Max   ? " max"
                : getPartialKind() == ReduceKind::Min ? " min"
                                                      : "")
            << " = [";
    llvm::interleaveComma(getPartial(), printer, [&](AxisAttr axis) { printAxis(printer, axis); });
    printer << "]";
  }
  printer << ">";
}

FailureOr<Sharding> ShardingAttr::toSharding(const Mesh &mesh, const Shape &shape,
                                             function_ref<InFlightDiagnostic()> emitError) const {
  if (getDims().size() != shape.size()) {
    emitError() << "the sharding has " << getDims().size() << " dimensions, the tensor " << shape.size()
                << "; both need the same number";
    return failure();
  }
  bool known = true;
  auto convert = [&](AxisAttr axis) -> AxisRef {
    int index = mesh.find(axis.getName().getValue());
    if (index < 0) {
      emitError() << "the mesh has no axis " << axis.getName() << "; name one of "
                  << MeshAttr::fromMesh(getContext(), mesh);
      known = false;
      return {};
    }
    return {index, axis.getBefore(), axis.getSize() ? axis.getSize() : mesh.axes[index].size};
  };
  Sharding sharding;
  for (auto [dim, size] : llvm::zip(getDims(), shape)) {
    DimSharding plain;
    for (AxisAttr axis : dim.getAxes())
      plain.axes.push_back(convert(axis));
    if (!plain.axes.empty() && known)
      plain.chunk = dim.getChunk() ? dim.getChunk() : defaultChunk(size, plain.axes);
    sharding.dims.push_back(std::move(plain));
  }
  for (AxisAttr axis : getPartial())
    sharding.partial.push_back(convert(axis));
  llvm::sort(sharding.partial);
  if (!sharding.partial.empty())
    sharding.partialKind = getPartialKind();
  if (!known)
    return failure();
  if (Status status = checkSharding(mesh, shape, sharding); !status) {
    emitError() << status.error().message;
    return failure();
  }
  return sharding;
}

ShardingAttr ShardingAttr::fromSharding(MLIRContext *context, const Mesh &mesh, const Shape &shape,
                                        const Sharding &sharding) {
  auto convert = [&](const AxisRef &ref) {
    const MeshAxis &axis = mesh.axes[ref.axis];
    bool whole = ref.before == 1 && ref.size == axis.size;
    return AxisAttr::get(context, StringAttr::get(context, axis.name), ref.before, whole ? 0 : ref.size);
  };
  SmallVector<DimAttr> dims;
  for (auto [dim, size] : llvm::zip(sharding.dims, shape)) {
    SmallVector<AxisAttr> axes = llvm::map_to_vector(dim.axes, convert);
    int64_t chunk = dim.axes.empty() || dim.chunk == defaultChunk(size, dim.axes) ? 0 : dim.chunk;
    dims.push_back(DimAttr::get(context, axes, chunk));
  }
  SmallVector<AxisAttr> partial = llvm::map_to_vector(sharding.partial, convert);
  return get(context, dims, partial, sharding.partialKind);
}
