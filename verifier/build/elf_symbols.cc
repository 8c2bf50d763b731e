#include "verifier/build/elf_symbols.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <optional>

namespace hone::verifier {
namespace {

// The object at `offset`, copied out, or nothing when it does not lie in the file.
template <class T>
std::optional<T> At(absl::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

absl::string_view Part(absl::string_view bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return "";
  return bytes.substr(offset, size);
}

std::string NameAt(absl::string_view table, uint64_t offset) {
  if (offset >= table.size()) return "";
  const absl::string_view rest = table.substr(offset);
  return std::string(rest.substr(0, rest.find('\0')));
}

void Sort(std::vector<std::string>* names) {
  std::sort(names->begin(), names->end());
  names->erase(std::unique(names->begin(), names->end()), names->end());
}

}  // namespace

absl::StatusOr<ElfSummary> SummariseElf(absl::string_view bytes) {
  const auto header = At<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return absl::InvalidArgumentError("not a 64-bit little-endian ELF file");
  }
  std::vector<Elf64_Shdr> sections;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = At<Elf64_Shdr>(bytes, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) return absl::InvalidArgumentError("the ELF file's section table is cut");
    sections.push_back(*section);
  }
  if (header->e_shstrndx >= sections.size()) return absl::InvalidArgumentError("the ELF file has no section names");
  const Elf64_Shdr& names = sections[header->e_shstrndx];
  const absl::string_view section_names = Part(bytes, names.sh_offset, names.sh_size);
  ElfSummary summary;
  for (const Elf64_Shdr& section : sections) {
    const std::string name = NameAt(section_names, section.sh_name);
    const bool by_type = section.sh_type == SHT_INIT_ARRAY || section.sh_type == SHT_FINI_ARRAY ||
                         section.sh_type == SHT_PREINIT_ARRAY;
    const bool by_name = name.rfind(".init", 0) == 0 || name.rfind(".fini", 0) == 0 || name.rfind(".ctors", 0) == 0 ||
                         name.rfind(".dtors", 0) == 0;
    if ((by_type || by_name) && section.sh_size > 0) summary.initialisers.push_back(name);
    if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) continue;
    if (section.sh_link >= sections.size()) return absl::InvalidArgumentError("the ELF file's symbols have no names");
    const Elf64_Shdr& strings = sections[section.sh_link];
    const absl::string_view symbol_names = Part(bytes, strings.sh_offset, strings.sh_size);
    const uint64_t count = section.sh_size / sizeof(Elf64_Sym);
    for (uint64_t i = 1; i < count; ++i) {
      const auto symbol = At<Elf64_Sym>(bytes, section.sh_offset + i * sizeof(Elf64_Sym));
      if (!symbol) return absl::InvalidArgumentError("the ELF file's symbol table is cut");
      const std::string symbol_name = NameAt(symbol_names, symbol->st_name);
      if (symbol_name.empty() || ELF64_ST_BIND(symbol->st_info) == STB_LOCAL) continue;
      if (symbol->st_shndx == SHN_UNDEF) {
        summary.undefined.push_back(symbol_name);
      } else if (ELF64_ST_VISIBILITY(symbol->st_other) == STV_DEFAULT) {
        summary.exported.push_back(symbol_name);
      }
      if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC) summary.initialisers.push_back(symbol_name);
    }
  }
  Sort(&summary.undefined);
  Sort(&summary.exported);
  Sort(&summary.initialisers);
  return summary;
}

}  // namespace hone::verifier
