#pragma once

// A model as a set of named tensors and small text files, wherever it comes from: what `hone convert` copies.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace hone::policy {

struct SourceTensor {
  std::string name;  // as HF transformers names it
  std::vector<int64_t> shape;
  /// Elements are read in multiples of this.
  int64_t granule = 1;
  /// Elements [first, first + out.size()) as float32.
  std::function<void(int64_t first, absl::Span<float> out)> read;

  int64_t Elements() const;
};

struct ModelSource {
  std::vector<SourceTensor> tensors;
  std::vector<std::pair<std::string, std::string>> files;  // name in the folder, content; config.json among them
  std::string note;                                        // what a person should know about the conversion; may be empty
  std::shared_ptr<const void> owner;                       // keeps what `tensors` read from alive
};

/// A GGUF file: weights unpacked on reading, and config.json, tokenizer.json, tokenizer_config.json, generation_config.json
/// and chat_template.jinja made from its metadata.
/// kInvalidArgument: architecture, tokenizer or tensors that hone does not know (named), beside Gguf::Open's errors.
absl::StatusOr<ModelSource> OpenGgufModel(const std::string& path);

/// An HF folder. kInvalidArgument: no config.json, or a tensor that is not floating-point (quantised checkpoints).
absl::StatusOr<ModelSource> OpenFolderModel(const std::string& path);

/// A folder or a file inside one: OpenFolderModel; a file that ends in .gguf: OpenGgufModel.
absl::StatusOr<ModelSource> OpenModel(const std::string& path);

}  // namespace hone::policy
