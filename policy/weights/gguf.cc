#include "policy/weights/gguf.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone::policy {
namespace {

// Kinds of metadata values, as the file numbers them.
enum Kind : uint32_t {
  kUInt8 = 0, kInt8 = 1, kUInt16 = 2, kInt16 = 3, kUInt32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7,
  kString = 8, kArray = 9, kUInt64 = 10, kInt64 = 11, kFloat64 = 12
};

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr int64_t kMaxDimensions = 4;
constexpr int64_t kDefaultAlignment = 32;
constexpr uint64_t kNameLimitBytes = 65535;

struct TypeFacts {
  GgmlType type;
  const char* name;
  GgmlBlock block;
};
constexpr TypeFacts kTypes[] = {
    {GgmlType::kF32, "F32", {1, 4}},       {GgmlType::kF16, "F16", {1, 2}},       {GgmlType::kBF16, "BF16", {1, 2}},
    {GgmlType::kQ4_0, "Q4_0", {32, 18}},   {GgmlType::kQ4_1, "Q4_1", {32, 20}},   {GgmlType::kQ5_0, "Q5_0", {32, 22}},
    {GgmlType::kQ5_1, "Q5_1", {32, 24}},   {GgmlType::kQ8_0, "Q8_0", {32, 34}},   {GgmlType::kQ2_K, "Q2_K", {256, 84}},
    {GgmlType::kQ3_K, "Q3_K", {256, 110}}, {GgmlType::kQ4_K, "Q4_K", {256, 144}}, {GgmlType::kQ5_K, "Q5_K", {256, 176}},
    {GgmlType::kQ6_K, "Q6_K", {256, 210}}};

const TypeFacts* FactsOf(uint32_t type) {
  for (const TypeFacts& facts : kTypes) {
    if (static_cast<uint32_t>(facts.type) == type) return &facts;
  }
  return nullptr;
}

}  // namespace

absl::string_view Name(GgmlType type) { return FactsOf(static_cast<uint32_t>(type))->name; }
GgmlBlock BlockOf(GgmlType type) { return FactsOf(static_cast<uint32_t>(type))->block; }

int64_t GgufTensor::Elements() const {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

/// Walks through the file once; every read is checked against its end.
class Gguf::Reader {
 public:
  Reader(absl::Span<const std::byte> bytes, Gguf& out) : bytes_(bytes), out_(out) {}
  absl::Status Read();

 private:
  struct Placed {
    size_t tensor;
    uint64_t offset;
    uint64_t bytes;
  };

  absl::Status Bad(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(out_.path(), ": ", what));
  }
  absl::Status Cut() const { return Bad(absl::StrCat("is cut, or lies about a length near byte ", at_)); }
  uint64_t Left() const { return bytes_.size() - at_; }

  template <class T>
  absl::Status Number(T& value) {
    if (Left() < sizeof(T)) return Cut();
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return absl::OkStatus();
  }
  absl::Status String(absl::string_view& text, uint64_t limit = ~uint64_t{0});
  template <class T>
  absl::Status Scalar(GgufValue& value);
  template <class T>
  absl::Status Scalars(uint64_t count, GgufArray& array);
  absl::Status Value(uint32_t kind, GgufValue& value);
  absl::Status Elements(uint32_t kind, uint64_t count, GgufArray& array);
  absl::Status Metadata(uint64_t count);
  absl::Status Describe(uint64_t count);
  absl::Status DescribeOne();
  absl::Status Place();

  absl::Span<const std::byte> bytes_;
  Gguf& out_;
  size_t at_ = 0;
  std::vector<Placed> placed_;
};

absl::Status Gguf::Reader::String(absl::string_view& text, uint64_t limit) {
  uint64_t size = 0;
  HONE_RETURN_IF_ERROR(Number(size));
  if (size > Left() || size > limit) return Cut();
  text = absl::string_view(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
  at_ += size;
  return absl::OkStatus();
}

template <class T>
absl::Status Gguf::Reader::Scalar(GgufValue& value) {
  T number{};
  HONE_RETURN_IF_ERROR(Number(number));
  if constexpr (std::is_floating_point_v<T>) {
    value = static_cast<double>(number);
  } else {
    value = static_cast<int64_t>(number);
  }
  return absl::OkStatus();
}

template <class T>
absl::Status Gguf::Reader::Scalars(uint64_t count, GgufArray& array) {
  if (count > Left() / sizeof(T)) return Cut();
  for (uint64_t i = 0; i < count; ++i) {
    T number{};
    HONE_RETURN_IF_ERROR(Number(number));
    if constexpr (std::is_floating_point_v<T>) {
      array.floats.push_back(static_cast<double>(number));
    } else {
      array.integers.push_back(static_cast<int64_t>(number));
    }
  }
  return absl::OkStatus();
}

absl::Status Gguf::Reader::Elements(uint32_t kind, uint64_t count, GgufArray& array) {
  switch (kind) {
    case kUInt8:
    case kBool: return Scalars<uint8_t>(count, array);
    case kInt8: return Scalars<int8_t>(count, array);
    case kUInt16: return Scalars<uint16_t>(count, array);
    case kInt16: return Scalars<int16_t>(count, array);
    case kUInt32: return Scalars<uint32_t>(count, array);
    case kInt32: return Scalars<int32_t>(count, array);
    case kUInt64: return Scalars<uint64_t>(count, array);
    case kInt64: return Scalars<int64_t>(count, array);
    case kFloat32: return Scalars<float>(count, array);
    case kFloat64: return Scalars<double>(count, array);
    case kString: break;
    default: return Bad(absl::StrCat("has an array of kind ", kind, ", which hone does not read"));
  }
  if (count > Left() / sizeof(uint64_t)) return Cut();
  array.strings.resize(count);
  for (absl::string_view& text : array.strings) HONE_RETURN_IF_ERROR(String(text));
  return absl::OkStatus();
}

absl::Status Gguf::Reader::Value(uint32_t kind, GgufValue& value) {
  switch (kind) {
    case kUInt8: return Scalar<uint8_t>(value);
    case kInt8: return Scalar<int8_t>(value);
    case kUInt16: return Scalar<uint16_t>(value);
    case kInt16: return Scalar<int16_t>(value);
    case kUInt32: return Scalar<uint32_t>(value);
    case kInt32: return Scalar<int32_t>(value);
    case kUInt64: return Scalar<uint64_t>(value);
    case kInt64: return Scalar<int64_t>(value);
    case kFloat32: return Scalar<float>(value);
    case kFloat64: return Scalar<double>(value);
    case kBool: {
      uint8_t flag = 0;
      HONE_RETURN_IF_ERROR(Number(flag));
      value = flag != 0;
      return absl::OkStatus();
    }
    case kString: {
      absl::string_view text;
      HONE_RETURN_IF_ERROR(String(text));
      value = text;
      return absl::OkStatus();
    }
    case kArray: {
      uint32_t element_kind = 0;
      uint64_t count = 0;
      HONE_RETURN_IF_ERROR(Number(element_kind));
      HONE_RETURN_IF_ERROR(Number(count));
      GgufArray array;
      HONE_RETURN_IF_ERROR(Elements(element_kind, count, array));
      value = std::move(array);
      return absl::OkStatus();
    }
    default: return Bad(absl::StrCat("has a value of unknown kind ", kind, " near byte ", at_));
  }
}

absl::Status Gguf::Reader::Metadata(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    absl::string_view key;
    uint32_t kind = 0;
    HONE_RETURN_IF_ERROR(String(key, kNameLimitBytes));
    HONE_RETURN_IF_ERROR(Number(kind));
    GgufValue value;
    HONE_RETURN_IF_ERROR(Value(kind, value));
    if (!out_.metadata_.emplace(std::string(key), std::move(value)).second) {
      return Bad(absl::StrCat("key '", absl::Utf8SafeCEscape(key), "' appears twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status Gguf::Reader::DescribeOne() {
  absl::string_view name;
  uint32_t dimensions = 0, type = 0;
  uint64_t offset = 0;
  HONE_RETURN_IF_ERROR(String(name, kNameLimitBytes));
  const std::string quoted = absl::StrCat("tensor '", absl::Utf8SafeCEscape(name), "'");
  HONE_RETURN_IF_ERROR(Number(dimensions));
  if (dimensions > kMaxDimensions) return Bad(absl::StrCat(quoted, " has ", dimensions, " dimensions; at most 4"));
  GgufTensor tensor;
  tensor.name = std::string(name);
  tensor.shape.resize(dimensions);
  int64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    int64_t& size = tensor.shape[dimensions - 1 - i];
    HONE_RETURN_IF_ERROR(Number(size));
    // Without its zeros, so that the product can be taken in any order.
    if (size < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements)) {
      return Bad(absl::StrCat(quoted, " has a bad shape"));
    }
  }
  elements = tensor.Elements();
  HONE_RETURN_IF_ERROR(Number(type));
  HONE_RETURN_IF_ERROR(Number(offset));
  const TypeFacts* facts = FactsOf(type);
  if (facts == nullptr) {
    return Bad(absl::StrCat(quoted, " has element type ", type,
                            "; known: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K"));
  }
  tensor.type = facts->type;
  const int64_t row = dimensions == 0 ? 1 : tensor.shape.back();
  if (row % facts->block.elements != 0) {
    return Bad(absl::StrCat(quoted, " has rows of ", row, " elements, not a multiple of ", facts->name, "'s block of ",
                            facts->block.elements));
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / facts->block.elements, facts->block.bytes, &bytes)) {
    return Bad(absl::StrCat(quoted, " has a bad shape"));
  }
  if (!out_.index_.emplace(tensor.name, out_.tensors_.size()).second) return Bad(absl::StrCat(quoted, " appears twice"));
  placed_.push_back({out_.tensors_.size(), offset, static_cast<uint64_t>(bytes)});
  out_.tensors_.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status Gguf::Reader::Place() {
  const int64_t alignment = out_.Integer("general.alignment").value_or(kDefaultAlignment);
  if (alignment <= 0 || alignment > 1 << 20 || alignment % 8 != 0) {
    return Bad(absl::StrCat("general.alignment is ", alignment, "; allowed: multiples of 8 up to 1048576"));
  }
  const uint64_t start = (at_ + alignment - 1) / alignment * alignment;
  const uint64_t room = start > bytes_.size() ? 0 : bytes_.size() - start;
  std::sort(placed_.begin(), placed_.end(), [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
  uint64_t reached = 0;
  for (const Placed& place : placed_) {
    GgufTensor& tensor = out_.tensors_[place.tensor];
    const auto bad = [&](absl::string_view what) {
      return Bad(absl::StrCat("tensor '", absl::Utf8SafeCEscape(tensor.name), "' ", what));
    };
    if (place.offset % alignment != 0) return bad(absl::StrCat("starts at ", place.offset, ", not a multiple of ", alignment));
    if (place.offset > room || place.bytes > room - place.offset) {
      return bad(absl::StrCat("needs bytes up to ", place.offset + place.bytes, " of the data but the file holds ", room,
                              ": the file is cut or lies"));
    }
    if (place.offset < reached) return bad("overlaps another");
    reached = place.offset + place.bytes;
    // A tensor without elements may be said to start past a file that holds no data at all.
    if (place.bytes > 0) tensor.bytes = bytes_.subspan(start + place.offset, place.bytes);
  }
  return absl::OkStatus();
}

absl::Status Gguf::Reader::Read() {
  uint32_t magic = 0, version = 0;
  uint64_t tensors = 0, pairs = 0;
  if (bytes_.size() < sizeof magic) return Cut();
  HONE_RETURN_IF_ERROR(Number(magic));
  if (magic != kMagic) return Bad("is not a GGUF file");
  HONE_RETURN_IF_ERROR(Number(version));
  if (version != 2 && version != 3) {
    return Bad(absl::StrCat("is GGUF version ", version, "; hone reads 2 and 3, little-endian"));
  }
  HONE_RETURN_IF_ERROR(Number(tensors));
  HONE_RETURN_IF_ERROR(Number(pairs));
  HONE_RETURN_IF_ERROR(Metadata(pairs));  // a count that lies runs into the file's end
  for (uint64_t i = 0; i < tensors; ++i) HONE_RETURN_IF_ERROR(DescribeOne());
  return Place();
}

absl::StatusOr<std::unique_ptr<Gguf>> Gguf::Open(const std::string& path) {
  auto gguf = std::unique_ptr<Gguf>(new Gguf());
  HONE_ASSIGN_OR_RETURN(gguf->file_, MappedFile::Open(path));
  HONE_RETURN_IF_ERROR(Reader(gguf->file_->bytes(), *gguf).Read());
  return gguf;
}

const GgufTensor* Gguf::Find(absl::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &tensors_[at->second];
}

std::optional<int64_t> Gguf::Integer(absl::string_view key) const {
  const auto at = metadata_.find(std::string(key));
  const int64_t* value = at == metadata_.end() ? nullptr : std::get_if<int64_t>(&at->second);
  return value == nullptr ? std::nullopt : std::make_optional(*value);
}

std::optional<double> Gguf::Number(absl::string_view key) const {
  const auto at = metadata_.find(std::string(key));
  if (at == metadata_.end()) return std::nullopt;
  if (const double* value = std::get_if<double>(&at->second)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&at->second)) return static_cast<double>(*value);
  return std::nullopt;
}

std::optional<bool> Gguf::Flag(absl::string_view key) const {
  const auto at = metadata_.find(std::string(key));
  const bool* value = at == metadata_.end() ? nullptr : std::get_if<bool>(&at->second);
  return value == nullptr ? std::nullopt : std::make_optional(*value);
}

std::optional<std::string> Gguf::Text(absl::string_view key) const {
  const auto at = metadata_.find(std::string(key));
  const absl::string_view* value = at == metadata_.end() ? nullptr : std::get_if<absl::string_view>(&at->second);
  return value == nullptr ? std::nullopt : std::make_optional(std::string(*value));
}

const GgufArray* Gguf::Array(absl::string_view key) const {
  const auto at = metadata_.find(std::string(key));
  return at == metadata_.end() ? nullptr : std::get_if<GgufArray>(&at->second);
}

}  // namespace hone::policy
