#include "trainer/comm/weight_channel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/model/checksum.h"
#include "policy/model/torch_status.h"

namespace hone::trainer {
namespace {

// What a member says to an announced update.
enum Answer : int64_t { kYes = 0, kOtherModel = 1, kNotNewer = 2 };

const char* Words(int64_t answer) {
  switch (answer) {
    case kOtherModel:
      return "has another model";
    case kNotNewer:
      return "has this version or a later one";
    default:
      return "refuses";
  }
}

// FNV-1a over names, shapes and dtypes.
uint64_t LayoutOf(const std::vector<policy::Leaf>& leaves) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const policy::Leaf& leaf : leaves) {
    std::string text = absl::StrCat(leaf.name, ":", c10::toString(leaf.value.scalar_type()));
    for (int64_t size : leaf.value.sizes()) absl::StrAppend(&text, ",", size);
    for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  }
  return hash;
}

}  // namespace

WeightChannel::Header WeightChannel::HeaderOf(int64_t version, const std::vector<policy::Leaf>& leaves) const {
  Header header{version, 0, LayoutOf(leaves)};
  for (const policy::Leaf& leaf : leaves) header.bytes += leaf.value.numel() * leaf.value.element_size();
  return header;
}

absl::StatusOr<WeightChannel::Header> WeightChannel::Announce(const Header& mine) {
  absl::StatusOr<at::Tensor> words = policy::CatchTorch("weights", [&] {
    return at::tensor({mine.version, mine.bytes, static_cast<int64_t>(mine.layout)}, at::kLong).to(device_);
  });
  HONE_RETURN_IF_ERROR(words.status());
  HONE_RETURN_IF_ERROR(members_.Broadcast(*words, 0));
  return policy::CatchTorch("weights", [&] {
    const at::Tensor host = words->cpu();
    const int64_t* w = host.const_data_ptr<int64_t>();
    return Header{w[0], w[1], static_cast<uint64_t>(w[2])};
  });
}

// Every member's word, by member.
absl::StatusOr<std::vector<int64_t>> WeightChannel::Tell(int64_t word) {
  absl::StatusOr<absl::StatusOr<std::vector<int64_t>>> told =
      policy::CatchTorch("weights", [&]() -> absl::StatusOr<std::vector<int64_t>> {
        const at::Tensor mine = at::full({1}, word, at::kLong).to(device_),
                         all = at::zeros({members_.size()}, mine.options());
        HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Transfer> transfer, members_.AllGather(all, mine));
        HONE_RETURN_IF_ERROR(transfer->Wait());
        const at::Tensor host = all.cpu();
        return std::vector<int64_t>(host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel());
      });
  HONE_RETURN_IF_ERROR(told.status());
  HONE_RETURN_IF_ERROR(told->status());
  // Operations that were aborted on the device end like good ones.
  HONE_RETURN_IF_ERROR(members_.Health());
  return **told;
}

absl::Status WeightChannel::Agree(int64_t answer) {
  HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> answers, Tell(answer));
  std::string refusals;
  for (size_t m = 0; m < answers.size(); ++m) {
    if (answers[m] != kYes)
      absl::StrAppend(&refusals, refusals.empty() ? "" : ", ", "member ", m, " ", Words(answers[m]));
  }
  return refusals.empty() ? absl::OkStatus() : absl::FailedPreconditionError(absl::StrCat("weights: ", refusals));
}

absl::Status WeightChannel::Move(const policy::Leaf& leaf) {
  const at::Tensor flat = leaf.value.detach().view({-1});
  const int64_t most = std::max<int64_t>(1, bucket_bytes_ / flat.element_size());
  for (int64_t begin = 0; begin < flat.numel(); begin += most) {
    HONE_RETURN_IF_ERROR(members_.Broadcast(flat.narrow(0, begin, std::min(most, flat.numel() - begin)), 0));
  }
  return absl::OkStatus();
}

absl::StatusOr<WeightUpdate> WeightChannel::Compare(const Header& header, uint64_t checksum) {
  HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> checksums, Tell(static_cast<int64_t>(checksum)));
  std::string different;
  for (size_t m = 1; m < checksums.size(); ++m) {
    if (checksums[m] != checksums[0]) absl::StrAppend(&different, different.empty() ? "" : ", ", m);
  }
  if (!different.empty()) {
    return absl::DataLossError(
        absl::StrCat("weights of version ", header.version, " came out different at member ", different));
  }
  return WeightUpdate{header.version, header.bytes, checksum};
}

absl::StatusOr<WeightUpdate> WeightChannel::Send(int64_t version, const std::vector<policy::Leaf>& leaves,
                                                 const VisitLeaves& visit) {
  at::NoGradGuard no_grad;
  const Header header = HeaderOf(version, leaves);
  HONE_RETURN_IF_ERROR(Announce(header).status());
  HONE_RETURN_IF_ERROR(Agree(kYes));
  policy::Checksum sum(device_);
  const auto send = [&](const policy::Leaf& leaf) {
    HONE_RETURN_IF_ERROR(Move(leaf));
    return sum.Add(leaf.value.detach());
  };
  if (visit) {
    HONE_RETURN_IF_ERROR(visit(send));
  } else {
    for (const policy::Leaf& leaf : leaves) HONE_RETURN_IF_ERROR(send(leaf));
  }
  HONE_ASSIGN_OR_RETURN(const uint64_t checksum, sum.Value());
  return Compare(header, checksum);
}

absl::StatusOr<WeightUpdate> WeightChannel::Receive(const std::vector<policy::Leaf>& leaves, int64_t held) {
  at::NoGradGuard no_grad;
  const Header mine = HeaderOf(0, leaves);
  HONE_ASSIGN_OR_RETURN(const Header header, Announce(mine));
  const bool same = header.bytes == mine.bytes && header.layout == mine.layout;
  HONE_RETURN_IF_ERROR(Agree(!same ? kOtherModel : header.version <= held ? kNotNewer : kYes));
  policy::Checksum sum(device_);
  for (const policy::Leaf& leaf : leaves) {
    HONE_RETURN_IF_ERROR(Move(leaf));
    HONE_RETURN_IF_ERROR(sum.Add(leaf.value.detach()));
    leaf.value.unsafeGetTensorImpl()->bump_version();  // packed copies are keyed by it
  }
  HONE_ASSIGN_OR_RETURN(const uint64_t checksum, sum.Value());
  return Compare(header, checksum);
}

}  // namespace hone::trainer
