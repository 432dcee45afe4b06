// SPDX-License-Identifier: Apache-2.0
// A linker for the ELF objects of kernels, which consist of code and constants that refer to each other by relative
// addresses. Objects with anything else are refused.
#include "MachineCode.h"

#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <fmt/format.h>
#include <map>

namespace kerf::codegen {

namespace {
using llvm::object::ELFObjectFileBase;
using llvm::object::ELFSectionRef;
using llvm::object::ELFSymbolRef;
using llvm::object::SectionRef;

/// Links one object into an image.
class Linker {
public:
  Linker(const ELFObjectFileBase &object, package::NativeImage &image) : object(object), image(image) {}

  Status run(const std::vector<std::string> &kernels) {
    if (Status status = place(); !status)
      return status;
    for (const SectionRef &section : object.sections())
      if (Status status = relocate(section); !status)
        return status;
    return findEntries(kernels);
  }

private:
  static bool isLoaded(const SectionRef &section) {
    return ELFSectionRef(section).getFlags() & llvm::ELF::SHF_ALLOC &&
           ELFSectionRef(section).getType() != llvm::ELF::SHT_X86_64_UNWIND;
  }

  Status place() {
    for (const SectionRef &section : object.sections()) {
      if (!isLoaded(section) || section.getSize() == 0)
        continue;
      if (section.isBSS() || ELFSectionRef(section).getFlags() & llvm::ELF::SHF_WRITE)
        return internalError("the object has writable data");
      auto content = section.getContents();
      if (!content)
        return internalError(llvm::toString(content.takeError()));
      image.code.resize(llvm::alignTo(image.code.size(), section.getAlignment()));
      offsets[section.getIndex()] = image.code.size();
      image.code += content->str();
    }
    return ok();
  }

  Status relocate(const SectionRef &section) {
    auto of = section.getRelocatedSection();
    if (!of)
      return internalError(llvm::toString(of.takeError()));
    if (*of == object.section_end() || !offsets.contains((*of)->getIndex()))
      return ok();
    for (const auto &relocation : section.relocations()) {
      auto symbol = relocation.getSymbol();
      auto target = symbol == object.symbol_end() ? std::nullopt : addressOf(*symbol);
      auto addend = llvm::object::ELFRelocationRef(relocation).getAddend();
      uint64_t type = relocation.getType();
      if (!target || !addend || (type != llvm::ELF::R_X86_64_PC32 && type != llvm::ELF::R_X86_64_PLT32))
        return internalError(
            fmt::format("the object has a relocation of type {} that does not refer to its own code", type));
      uint64_t from = offsets[(*of)->getIndex()] + relocation.getOffset();
      llvm::support::endian::write32le(&image.code[from], uint32_t(*target + uint64_t(*addend) - from));
    }
    return ok();
  }

  std::optional<uint64_t> addressOf(const llvm::object::SymbolRef &symbol) const {
    auto section = symbol.getSection();
    auto value = symbol.getValue();
    if (!section || !value || *section == object.section_end())
      return std::nullopt;
    auto found = offsets.find((*section)->getIndex());
    return found == offsets.end() ? std::nullopt : std::optional(found->second + *value);
  }

  Status findEntries(const std::vector<std::string> &kernels) {
    std::map<std::string, int64_t> named;
    for (const ELFSymbolRef &symbol : object.symbols())
      if (auto name = symbol.getName(); name && symbol.getELFType() == llvm::ELF::STT_FUNC)
        if (auto address = addressOf(symbol))
          named[name->str()] = int64_t(*address);
    for (const std::string &kernel : kernels) {
      auto found = named.find(kernel);
      if (found == named.end())
        return internalError(fmt::format("the object has no function '{}'", kernel));
      image.entries.push_back(found->second);
    }
    return ok();
  }

  const ELFObjectFileBase &object;
  package::NativeImage &image;
  std::map<uint64_t, uint64_t> offsets; // for each loaded section: its offset in NativeImage::code
};
} // namespace

Result<package::NativeImage> linkImage(const std::string &object, const std::string &isa,
                                       const std::vector<std::string> &kernels) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "kernels"));
  if (!file)
    return internalError(llvm::toString(file.takeError()));
  package::NativeImage image;
  image.isa = isa;
  if (Status status = Linker(llvm::cast<ELFObjectFileBase>(**file), image).run(kernels); !status)
    return status.error();
  image.checksum = package::checksumOf(image.code);
  return image;
}

} // namespace kerf::codegen
