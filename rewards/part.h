#pragma once

// The parts of a reward pipeline (terms, turn rules, advantages) as values chosen by name from a registry. A part names
// its parameters once, in Describe; that one function reads them from YAML, writes them, lists them for
// docs/rewards.md and sets one of them in a sweep.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/config.h"

namespace hone::rewards {

/// Whoever wants to see or change the parameters of a part.
class Fields {
 public:
  virtual ~Fields() = default;
  virtual void Value(const char* key, bool& value, const char* doc) = 0;
  virtual void Value(const char* key, int64_t& value, Bounds<int64_t> bounds, const char* doc) = 0;
  virtual void Value(const char* key, double& value, Bounds<double> bounds, const char* doc) = 0;
  virtual void Value(const char* key, std::string& value, const OneOf& allowed, const char* doc) = 0;
  virtual void Value(const char* key, std::vector<double>& value, Bounds<double> bounds, const char* doc) = 0;
};

/// ConfigReader or ConfigWriter as Fields.
template <class Target>
class FieldsInto final : public Fields {
 public:
  explicit FieldsInto(Target& target) : target_(target) {}
  void Value(const char* key, bool& value, const char* doc) override { target_.Value(key, value, doc); }
  void Value(const char* key, int64_t& value, Bounds<int64_t> bounds, const char* doc) override {
    target_.Value(key, value, bounds, doc);
  }
  void Value(const char* key, double& value, Bounds<double> bounds, const char* doc) override {
    target_.Value(key, value, bounds, doc);
  }
  void Value(const char* key, std::string& value, const OneOf& allowed, const char* doc) override {
    target_.Value(key, value, allowed, doc);
  }
  void Value(const char* key, std::vector<double>& value, Bounds<double> bounds, const char* doc) override {
    target_.Value(key, value, bounds, doc);
  }

 private:
  Target& target_;
};

/// What terms, turn rules and advantages have in common. Parts are immutable once the pipeline is made, hence
/// thread-safe. A concrete part also has `static constexpr const char* kName, *kSummary, *kSource`.
class Part {
 public:
  virtual ~Part() = default;
  virtual void Describe(Fields& fields) {}
  /// What bounds on single parameters cannot say. kInvalidArgument.
  virtual absl::Status Validate() const { return absl::OkStatus(); }
  /// The formula in words with its parameters filled in, for `hone lab explain`.
  virtual std::string Formula() const = 0;
};

/// A copyable value of some class derived from Base.
template <class Base>
class Polymorphic {
 public:
  Polymorphic() = default;
  template <class T>
  static Polymorphic Of(T value) {
    Polymorphic result;
    result.value_ = std::make_unique<T>(std::move(value));
    result.clone_ = [](const Base& other) -> std::unique_ptr<Base> {
      return std::make_unique<T>(static_cast<const T&>(other));
    };
    return result;
  }
  Polymorphic(const Polymorphic& other)
      : value_(other.value_ ? other.clone_(*other.value_) : nullptr), clone_(other.clone_) {}
  Polymorphic& operator=(const Polymorphic& other) { return *this = Polymorphic(other); }
  Polymorphic(Polymorphic&&) noexcept = default;
  Polymorphic& operator=(Polymorphic&&) noexcept = default;

  explicit operator bool() const { return value_ != nullptr; }
  const Base& operator*() const { return *value_; }
  const Base* operator->() const { return value_.get(); }
  Base* operator->() { return value_.get(); }

 private:
  std::unique_ptr<Base> value_;
  std::unique_ptr<Base> (*clone_)(const Base&) = nullptr;
};

/// One line of a registry.
template <class Base>
struct Registration {
  const char* name;
  const char* summary;  // one sentence
  const char* source;   // paper and equation, or "ours"
  Polymorphic<Base> (*make)();
};
template <class Base, class T>
Registration<Base> Register() {
  return {T::kName, T::kSummary, T::kSource, [] { return Polymorphic<Base>::Of(T{}); }};
}

/// A part chosen by name with its parameters. Base::Registry() lists what there is; the first is the default.
template <class Base>
struct Choice {
  std::string name;
  Polymorphic<Base> part;

  Choice() { Choose(Base::Registry()[0].name); }
  explicit Choice(const std::string& wanted) { Choose(wanted); }
  template <class T>
  static Choice Of(T value) {
    Choice choice;
    choice.name = T::kName;
    choice.part = Polymorphic<Base>::Of(std::move(value));
    return choice;
  }
  /// Default parameters of the part called `wanted`; an unknown name changes nothing.
  void Choose(const std::string& wanted) {
    for (const Registration<Base>& entry : Base::Registry()) {
      if (wanted != entry.name || wanted == name) continue;
      name = wanted;
      part = entry.make();
    }
  }
};

template <class F, class Base>
void DescribeChoice(F& f, Choice<Base>& choice, const char* doc) {
  OneOf names;
  for (const Registration<Base>& entry : Base::Registry()) names.words.push_back(entry.name);
  std::string name = choice.name;
  f.Value("name", name, names, doc);
  choice.Choose(name);
  FieldsInto<F> fields(f);
  choice.part->Describe(fields);
  if (absl::Status status = choice.part->Validate(); !status.ok()) f.Fail("name", std::string(status.message()));
}

}  // namespace hone::rewards
