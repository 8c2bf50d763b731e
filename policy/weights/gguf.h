#pragma once

// GGUF files in: metadata, tensors, and their quantised blocks as float32.
//
// A file is, little-endian: magic "GGUF", version, counts, key-value pairs, tensor descriptions, then the tensors' data at
// multiples of general.alignment. Source: the GGUF specification and the block layouts of the ggml project.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "policy/weights/mapped_file.h"

namespace hone::policy {

/// Element types of ggml that hone reads; the numbers are the file's.
enum class GgmlType : uint32_t {
  kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ5_0 = 6, kQ5_1 = 7, kQ8_0 = 8,
  kQ2_K = 10, kQ3_K = 11, kQ4_K = 12, kQ5_K = 13, kQ6_K = 14, kBF16 = 30
};

/// "Q4_K".
absl::string_view Name(GgmlType type);
/// Elements that are stored together, and the bytes they take.
struct GgmlBlock {
  int64_t elements;
  int64_t bytes;
};
GgmlBlock BlockOf(GgmlType type);

struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<int64_t> shape;         // outermost first, as torch writes it (the file has it the other way round)
  absl::Span<const std::byte> bytes;  // of the mapped file

  int64_t Elements() const;
};

/// An array of the metadata: numbers widened, or strings. Strings are of the mapped file.
struct GgufArray {
  std::vector<int64_t> integers;  // booleans as 0 and 1
  std::vector<double> floats;
  std::vector<absl::string_view> strings;
};
using GgufValue = std::variant<bool, int64_t, double, absl::string_view, GgufArray>;

/// Immutable; safe to share between threads.
class Gguf {
 public:
  /// kNotFound; kInvalidArgument: not GGUF version 2 or 3, cut, a length or count that the file cannot hold, a repeated name, a
  /// tensor outside the file or of an element type that hone does not read (named), overlapping tensors.
  static absl::StatusOr<std::unique_ptr<Gguf>> Open(const std::string& path);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in the file's order
  const GgufTensor* Find(absl::string_view name) const;                // nullptr: none
  const std::map<std::string, GgufValue>& metadata() const { return metadata_; }
  const std::string& path() const { return file_->path(); }

  // A value of the metadata by key. Nothing where it is missing or of another kind; integers are also read as numbers.
  std::optional<int64_t> Integer(absl::string_view key) const;
  std::optional<double> Number(absl::string_view key) const;
  std::optional<bool> Flag(absl::string_view key) const;
  std::optional<std::string> Text(absl::string_view key) const;
  const GgufArray* Array(absl::string_view key) const;  // nullptr: none

 private:
  class Reader;
  Gguf() = default;

  std::unique_ptr<MappedFile> file_;
  std::map<std::string, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  absl::flat_hash_map<std::string, size_t> index_;  // tensor name -> position
};

/// Elements [first, first + out.size()) of `tensor` as float32; both must be multiples of the type's block. Exactly the values
/// of ggml's reference: products and sums in float32, in its order.
void Dequantize(const GgufTensor& tensor, int64_t first, absl::Span<float> out);

}  // namespace hone::policy
