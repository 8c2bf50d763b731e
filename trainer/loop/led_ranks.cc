#include "trainer/loop/led_ranks.h"

#include <cstring>
#include <string>
#include <type_traits>

#include "base/status_macros.h"
#include "cmake/torch_pch.h"
#include "policy/model/torch_status.h"
#include "trainer/data/dataset.h"

namespace hone::trainer {
namespace {

class Writer {
 public:
  template <class T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  template <class T>
  void Put(const std::vector<T>& values) {
    Put(static_cast<int64_t>(values.size()));
    for (const T& value : values) Put(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  Reader(const char* begin, int64_t size) : next_(begin), left_(size) {}

  template <class T>
  void Take(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (!Has(sizeof(T))) return;
    std::memcpy(&value, next_, sizeof(T));
    Skip(sizeof(T));
  }
  template <class T>
  void Take(std::vector<T>& values) {
    int64_t count = 0;
    Take(count);
    if (count < 0 || count > left_ / static_cast<int64_t>(sizeof(T))) whole_ = false;
    if (!whole_) return;
    values.resize(count);
    for (T& value : values) Take(value);
  }
  int64_t left() const { return left_; }
  bool whole() const { return whole_; }

 private:
  bool Has(int64_t bytes) {
    whole_ = whole_ && left_ >= bytes;
    return whole_;
  }
  void Skip(int64_t bytes) {
    next_ += bytes;
    left_ -= bytes;
  }
  const char* next_;
  int64_t left_;
  bool whole_ = true;
};

// The fields of a sequence in their order on the wire.
template <class Sequence, class Visit>
void Fields(Sequence& s, const Visit& visit) {
  visit(s.ids);
  visit(s.loss_mask);
  visit(s.token_weights);
  visit(s.kernel_tokens);
  visit(s.rollout_log_probs);
  visit(s.reference_log_probs);
  visit(s.advantage);
  visit(s.versions);
}

}  // namespace

at::Tensor ToBytes(const std::vector<TrainSequence>& sequences) {
  Writer writer;
  writer.Put(static_cast<int64_t>(sequences.size()));
  for (const TrainSequence& sequence : sequences) Fields(sequence, [&](const auto& field) { writer.Put(field); });
  at::Tensor bytes = at::empty({static_cast<int64_t>(writer.bytes().size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), writer.bytes().data(), writer.bytes().size());
  return bytes;
}

absl::StatusOr<std::vector<TrainSequence>> FromBytes(const at::Tensor& bytes) {
  Reader reader(static_cast<const char*>(bytes.const_data_ptr()), bytes.numel());
  int64_t count = 0;
  reader.Take(count);
  std::vector<TrainSequence> sequences;
  for (int64_t i = 0; i < count && reader.whole(); ++i) {
    Fields(sequences.emplace_back(), [&](auto& field) { reader.Take(field); });
  }
  if (!reader.whole() || reader.left() != 0) return absl::DataLossError("sequences of another rank cannot be read");
  return sequences;
}

LedRanks::~LedRanks() {
  if (leads() && !ended_) Give(Order::kEnd).IgnoreError();
}

absl::Status LedRanks::Give(Order order, int64_t number) {
  ended_ = ended_ || order == Order::kEnd;
  return Share(at::tensor({static_cast<int64_t>(order), number}, at::kLong)).status();
}

absl::StatusOr<GivenOrder> LedRanks::Await() {
  while (true) {
    HONE_ASSIGN_OR_RETURN(const at::Tensor words, Share(at::zeros({2}, at::kLong)));
    const int64_t* w = words.const_data_ptr<int64_t>();
    if (static_cast<Order>(w[0]) != Order::kStay) return GivenOrder{static_cast<Order>(w[0]), w[1]};
  }
}

// The first rank's tensor of that shape, on the host.
absl::StatusOr<at::Tensor> LedRanks::Share(const at::Tensor& host) {
  absl::StatusOr<at::Tensor> there = policy::CatchTorch("orders", [&] { return host.to(device_); });
  HONE_RETURN_IF_ERROR(there.status());
  HONE_RETURN_IF_ERROR(ranks_.Broadcast(*there, 0));
  absl::StatusOr<at::Tensor> back = policy::CatchTorch("orders", [&] { return there->cpu(); });
  HONE_RETURN_IF_ERROR(back.status());
  HONE_RETURN_IF_ERROR(ranks_.Health());  // an operation that was aborted on the device ends like a good one
  return back;
}

absl::StatusOr<std::vector<TrainSequence>> LedRanks::Deal(const std::vector<TrainSequence>& all) {
  at::Tensor bytes = leads() ? ToBytes(all) : at::Tensor();
  HONE_ASSIGN_OR_RETURN(const at::Tensor size, Share(at::full({1}, leads() ? bytes.numel() : 0, at::kLong)));
  if (!leads()) bytes = at::zeros({size.item<int64_t>()}, at::kByte);
  HONE_ASSIGN_OR_RETURN(bytes, Share(bytes));
  HONE_ASSIGN_OR_RETURN(std::vector<TrainSequence> sequences, FromBytes(bytes));
  std::vector<int64_t> lengths;
  for (const TrainSequence& sequence : sequences) lengths.push_back(sequence.length());
  std::vector<TrainSequence> own;
  for (size_t i : ShareOfRank(lengths, ranks_.size(), ranks_.rank())) own.push_back(std::move(sequences[i]));
  return own;
}

}  // namespace hone::trainer
