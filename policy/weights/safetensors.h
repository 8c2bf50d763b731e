#pragma once

// safetensors files in and out, without torch.
//
// A file is: 8 bytes little-endian header length N, N bytes of JSON, then the tensors' bytes. The JSON maps each name to
// {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}, offsets counted from the end of the header;
// "__metadata__" maps strings to strings. The tensors cover the rest of the file without holes or overlaps.
// Source: the format description of the safetensors project, and its `index.json` convention for sharded models.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/tensor.h"
#include "policy/weights/mapped_file.h"
#include "policy/weights/tensor_view.h"

namespace hone::policy {

/// Weights of one model: a single file, or all shards that an index names. Immutable, so safe to share between threads.
class Safetensors {
 public:
  /// `path`: a .safetensors file, a *.index.json, or a folder with model.safetensors or model.safetensors.index.json.
  ///
  /// Errors name the file and the tensor: kNotFound (file, folder's weights, or a shard), kInvalidArgument (a header that
  /// is cut, lies about lengths, repeats a name, has an unknown dtype, holes, overlaps, or an index that disagrees with its
  /// shards).
  static absl::StatusOr<std::unique_ptr<Safetensors>> Open(const std::string& path);

  /// Sorted by name. The bytes live as long as this object.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// nullptr: no such tensor.
  const TensorView* Find(absl::string_view name) const;
  /// "__metadata__" of the first file.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// kInvalidArgument unless the names are exactly `expected`: lists the first missing and unexpected names, and how many.
  absl::Status RequireNames(std::vector<std::string> expected) const;

 private:
  Safetensors() = default;
  absl::Status AddFile(const std::string& path);
  absl::Status AddShards(const std::string& index_path);
  absl::Status SortNames();

  std::string path_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Writes one file tensor by tensor, so that a model need not be in memory as a whole. The bytes go to a temporary
/// neighbour that replaces `path` in Finish: readers see the old file or the complete new one. Without Finish, the
/// neighbour is removed.
class SafetensorsWriter {
 public:
  /// `specs` fixes names, dtypes, shapes and their order in the file. kInvalidArgument: a repeated or empty name, strides.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(const std::string& path, std::vector<TensorSpec> specs,
                                                                   const std::map<std::string, std::string>& metadata = {});
  ~SafetensorsWriter();

  /// The bytes of the next tensor in the order of `specs`. kFailedPrecondition: wrong number of bytes, or none left;
  /// kResourceExhausted: disk full.
  absl::Status Append(absl::Span<const std::byte> bytes);
  /// kFailedPrecondition when tensors are missing.
  absl::Status Finish();

 private:
  SafetensorsWriter(std::string path, std::vector<TensorSpec> specs);
  absl::Status Write(const void* data, size_t size);

  std::string path_;
  std::string temporary_;
  std::vector<TensorSpec> specs_;
  size_t next_ = 0;
  UniqueFd fd_;
};

/// All at once, in the order given.
absl::Status WriteSafetensors(const std::string& path, const std::vector<TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

/// The format's dtype word ("BF16"); ParseSafetensorsDType gives nothing for a word that hone has no type for.
absl::string_view SafetensorsDType(DType dtype);
std::optional<DType> ParseSafetensorsDType(absl::string_view word);

/// Product of `shape` times the size of an element; nothing when a size is negative or the product overflows.
std::optional<int64_t> DenseBytes(DType dtype, const std::vector<int64_t>& shape);

}  // namespace hone::policy
