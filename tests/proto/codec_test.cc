// Every struct that travels survives the journey. Two traps for whoever adds a field: the structured bindings below stop
// compiling when a domain struct grows, and the reflection check fails when a message field is left unset by ToWire.

#include "proto/codec.h"

#include <catch2/catch_test_macros.hpp>
#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include "proto/convert.h"

namespace hone::proto {
namespace {

/// Gives every field of every struct a value of its own; booleans their other value, or true throughout.
class Filler {
 public:
  explicit Filler(bool all_true = false) : all_true_(all_true) {}
  void Fill(bool& value) { value = all_true_ || !value; }
  void Fill(int& value) { value = 1000 + ++count_; }
  void Fill(int64_t& value) { value = (int64_t{1} << 40) + ++count_; }
  void Fill(float& value) { value = 0.5f + static_cast<float>(++count_); }
  void Fill(double& value) { value = 0.1 + ++count_; }
  void Fill(std::string& value) { value = "text " + std::to_string(++count_); }
  template <class T>
  void Fill(std::vector<T>& value) {
    value.assign(2, T{});
    for (T& item : value) Fill(item);
  }
  template <class T>
  void Fill(std::optional<T>& value) {
    Fill(value.emplace());
  }
  void Fill(Sizes& value) {
    value.clear();
    for (int i = 0; i < 3; ++i) Fill(value["size" + std::to_string(++count_)]);
  }

  // The last enumerator: fails when an enum grows on one side only, together with the test of names.
  void Fill(DType& value) { value = DType::kBool; }
  void Fill(Split& value) { value = Split::kHeldOut; }
  void Fill(ValueProfile& value) { value = ValueProfile::kSpecial; }
  void Fill(Format& value) { value = Format::kTriton; }
  void Fill(Backend& value) { value = Backend::kMusa; }
  void Fill(Baseline& value) { value = Baseline::kScalar; }
  void Fill(SpeedupStatistic& value) { value = SpeedupStatistic::kRatioOfMeans; }
  void Fill(VerdictStatus& value) { value = VerdictStatus::kCheat; }
  void Fill(Priority& value) { value = Priority::kHigh; }
  void Fill(TensorArgument::Role& value) { value = TensorArgument::Role::kOutput; }

  void Fill(Tolerance& value) { auto& [a, b] = value; All(a, b); }
  void Fill(LegalityPolicy& value) { auto& [a, b] = value; All(a, b); }
  void Fill(Task& value) {
    auto& [id, level, family, description, split, dtype, tolerance, variants, timing, timing_gpu, profiles, legality, weak,
           reference, scalar_baseline] = value;
    All(id, level, family, description, split, dtype, tolerance, variants, timing, timing_gpu, profiles, legality, weak,
        reference, scalar_baseline);
  }
  void Fill(Candidate& value) { auto& [a, b, c] = value; All(a, b, c); }
  void Fill(TensorSpec& value) { auto& [a, b, c, d] = value; All(a, b, c, d); }
  void Fill(TensorArgument& value) { auto& [a, b, c] = value; All(a, b, c); }
  void Fill(SizeArgument& value) { auto& [a, b, c] = value; All(a, b, c); }
  void Fill(ScalarArgument& value) { auto& [a, b, c] = value; All(a, b, c); }
  void Fill(Signature& value) { auto& [a, b, c] = value; All(a, b, c); }
  void Fill(Protocol& value) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] = value;
    All(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q);
  }
  void Fill(Mismatch& value) { auto& [a, b, c, d, e, f, g] = value; All(a, b, c, d, e, f, g); }
  void Fill(RuleHit& value) { auto& [a, b, c] = value; All(a, b, c); }
  void Fill(Estimate& value) { auto& [a, b, c, d] = value; All(a, b, c, d); }
  void Fill(Timing& value) { auto& [a, b, c, d, e, f, g] = value; All(a, b, c, d, e, f, g); }
  void Fill(PhaseSeconds& value) { auto& [a, b, c, d, e] = value; All(a, b, c, d, e); }
  void Fill(KernelProfile& value) { auto& [a, b, c, d, e, f, g, h] = value; All(a, b, c, d, e, f, g, h); }
  void Fill(Verdict& value) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u] = value;
    All(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u);
  }
  void Fill(VersionSpan& value) { auto& [a, b, c] = value; All(a, b, c); }
  void Fill(Turn& value) { auto& [a, b, c, d, e, f, g, h] = value; All(a, b, c, d, e, f, g, h); }
  void Fill(Episode& value) { auto& [a, b, c, d] = value; All(a, b, c, d); }
  void Fill(Group& value) { auto& [a, b, c] = value; All(a, b, c); }
  void Fill(VerifyRequest& value) { auto& [a, b, c, d, e, f, g, h] = value; All(a, b, c, d, e, f, g, h); }
  void Fill(Capabilities& value) { auto& [a, b, c, d, e, f, g, h, i] = value; All(a, b, c, d, e, f, g, h, i); }

 private:
  template <class... Fields>
  void All(Fields&... fields) {
    (Fill(fields), ...);
  }
  const bool all_true_;
  int count_ = 0;
};

/// Paths of message fields that nobody set, below `message`.
void FindUnset(const google::protobuf::Message& message, const std::string& path, std::vector<std::string>& unset) {
  const auto* reflection = message.GetReflection();
  const auto* type = message.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    const std::string here = path + "." + field->name();
    if (field->is_repeated()) {
      const int size = reflection->FieldSize(message, field);
      if (size == 0) unset.push_back(here);
      if (field->cpp_type() != field->CPPTYPE_MESSAGE || field->is_map()) continue;
      for (int j = 0; j < size; ++j) FindUnset(reflection->GetRepeatedMessage(message, field, j), here, unset);
    } else {
      if (!reflection->HasField(message, field)) unset.push_back(here);
      if (field->cpp_type() != field->CPPTYPE_MESSAGE) continue;
      if (reflection->HasField(message, field)) FindUnset(reflection->GetMessage(message, field), here, unset);
    }
  }
}

template <class Struct, class Message>
void CheckJourney() {
  Struct visible;
  Filler(/*all_true=*/true).Fill(visible);  // false is how an unset field reads
  if constexpr (std::is_same_v<Struct, VerifyRequest>) visible.use_cache = false;
  Message message;
  ToWire(visible, &message);
  std::vector<std::string> unset;
  FindUnset(message, message.GetTypeName(), unset);
  CHECK(unset == std::vector<std::string>{});
  Struct filled;
  Filler().Fill(filled);
  const std::string bytes = Encode(filled);
  const absl::StatusOr<Struct> back = Decode<Struct>(bytes);
  REQUIRE(back.ok());
  CHECK(*back == filled);
  CHECK(!(*back == Struct{}));
  CHECK(Encode(*back) == bytes);
  const absl::StatusOr<Struct> plain = Decode<Struct>(Encode(Struct{}));
  REQUIRE(plain.ok());
  CHECK(*plain == Struct{});
}

TEST_CASE("Every field of every domain struct survives the wire", "[proto]") {
  SECTION("Task") { CheckJourney<Task, v1::Task>(); }
  SECTION("Candidate") { CheckJourney<Candidate, v1::Candidate>(); }
  SECTION("Protocol") { CheckJourney<Protocol, v1::Protocol>(); }
  SECTION("Signature") { CheckJourney<Signature, v1::Signature>(); }
  SECTION("Verdict") { CheckJourney<Verdict, v1::Verdict>(); }
  SECTION("Turn") { CheckJourney<Turn, v1::Turn>(); }
  SECTION("Episode") { CheckJourney<Episode, v1::Episode>(); }
  SECTION("Group") { CheckJourney<Group, v1::Group>(); }
  SECTION("VerifyRequest") { CheckJourney<VerifyRequest, v1::VerifyRequest>(); }
  SECTION("Capabilities") { CheckJourney<Capabilities, v1::Capabilities>(); }
}

/// The wire names of an enum, without prefix and UNSPECIFIED, compared case-blind with the domain's.
template <class Domain, class NameOf>
void CheckNames(const google::protobuf::EnumDescriptor* type, const std::string& prefix, NameOf name_of) {
  REQUIRE(type->FindValueByNumber(0) != nullptr);
  CHECK(type->FindValueByNumber(0)->name() == prefix + "UNSPECIFIED");
  for (int number = 1; number < type->value_count(); ++number) {
    REQUIRE(type->FindValueByNumber(number) != nullptr);
    std::string domain(name_of(static_cast<Domain>(number - 1)));
    for (char& c : domain) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    CHECK(type->FindValueByNumber(number)->name() == prefix + domain);
  }
}

TEST_CASE("Wire enums name the same things in the same order as the domain's", "[proto]") {
  const auto name_of = [](auto value) { return Name(value); };
  CheckNames<DType>(v1::DType_descriptor(), "DTYPE_", name_of);
  CheckNames<Split>(v1::Split_descriptor(), "SPLIT_", name_of);
  CheckNames<ValueProfile>(v1::ValueProfile_descriptor(), "VALUE_PROFILE_", name_of);
  CheckNames<Format>(v1::Format_descriptor(), "FORMAT_", name_of);
  CheckNames<Backend>(v1::Backend_descriptor(), "BACKEND_", name_of);
  CheckNames<Baseline>(v1::Baseline_descriptor(), "BASELINE_", name_of);
  CheckNames<TensorArgument::Role>(v1::TensorArgument::Role_descriptor(), "ROLE_", [](TensorArgument::Role role) {
    return std::array{"input", "parameter", "output"}[static_cast<size_t>(role)];
  });
  CheckNames<VerdictStatus>(v1::VerdictStatus_descriptor(), "VERDICT_STATUS_", name_of);
}

TEST_CASE("An enum value of a newer version is refused by its field's name, not misread", "[proto]") {
  v1::Candidate message;
  message.set_format(v1::FORMAT_NATIVE);
  message.set_backend(static_cast<v1::Backend>(77));
  const auto candidate = Decode<Candidate>(message.SerializeAsString());
  REQUIRE(absl::IsInvalidArgument(candidate.status()));
  CHECK(std::string(candidate.status().message()).find("candidate.backend: 77") != std::string::npos);
}

TEST_CASE("Bytes that are no message are refused", "[proto]") {
  CHECK(absl::IsInvalidArgument(Decode<Verdict>("\xff\xff\xff").status()));
  const std::string whole = Encode([] { Verdict v; Filler().Fill(v); return v; }());
  CHECK(absl::IsInvalidArgument(Decode<Verdict>(whole.substr(0, whole.size() - 1)).status()));
}

TEST_CASE("A candidate that is not UTF-8 travels unharmed", "[proto]") {
  const Candidate candidate{Format::kNative, Backend::kCpu, std::string("\xc3\x28\0\xff", 4)};
  const auto back = Decode<Candidate>(Encode(candidate));
  REQUIRE(back.ok());
  CHECK(*back == candidate);
}

TEST_CASE("Text of a verdict that is not UTF-8 is made so, because a peer in another language would refuse it", "[proto]") {
  Verdict verdict;
  verdict.message = "cut \xe2\x82 here";
  verdict.compiler_output = "fine";
  const auto back = Decode<Verdict>(Encode(verdict));
  REQUIRE(back.ok());
  CHECK(back->message == "cut \xef\xbf\xbd here");
  CHECK(back->compiler_output == "fine");
}

TEST_CASE("Equal tasks give equal bytes whatever the order their sizes were set in", "[proto]") {
  Task one, other;
  one.timing = {{"rows", 3}, {"cols", 5}, {"depth", 7}};
  for (const auto& [name, value] : std::vector<std::pair<std::string, int64_t>>{{"depth", 7}, {"rows", 3}, {"cols", 5}}) {
    other.timing[name] = value;
  }
  CHECK(Encode(one) == Encode(other));
}

}  // namespace
}  // namespace hone::proto
