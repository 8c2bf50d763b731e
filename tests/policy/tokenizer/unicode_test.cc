#include "policy/tokenizer/unicode.h"

#include <catch2/catch_test_macros.hpp>

#include "policy/tokenizer/normalizer.h"

namespace hone::policy {
namespace {

TEST_CASE("Ill-formed UTF-8 is replaced part by part as in the Unicode standard", "[policy][tokenizer]") {
  // Table 3-8 of the standard: U+FFFD Substitution of Maximal Subparts.
  CHECK(RepairUtf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64") ==
        "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" "b\xEF\xBF\xBD" "c\xEF\xBF\xBD\xEF\xBF\xBD" "d");
  // Table 3-9: overlong forms and surrogates, one replacement a byte.
  CHECK(RepairUtf8("\xC0\xAF\xE0\x80\xBF\xED\xA0\x80").size() == 8 * 3);
  CHECK(RepairUtf8("é线🚀") == "é线🚀");
}

TEST_CASE("The settled prefix ends before an open character only", "[policy][tokenizer]") {
  CHECK(SettledUtf8Prefix("ab\xF0\x9F\x9A") == 2);
  CHECK(SettledUtf8Prefix("ab\xF0\x9F\x9A\x80") == 6);
  CHECK(SettledUtf8Prefix("ab\xE0\x80") == 4);  // overlong already: no byte can mend it
  CHECK(SettledUtf8Prefix("\x80\x80\x80") == 3);
  CHECK(SettledUtf8Prefix("") == 0);
}

TEST_CASE("NFC composes, reorders and keeps exclusions decomposed", "[policy][tokenizer]") {
  const Nfc nfc;
  CHECK(nfc.Apply("e\u0301") == "\u00E9");
  CHECK(nfc.Apply("\u212B") == "\u00C5");                      // Angstrom sign: a singleton
  CHECK(nfc.Apply("\u0958") == "\u0915\u093C");                // composition exclusion
  CHECK(nfc.Apply("\u1100\u1161\u11A8") == "\uAC01");          // Hangul
  CHECK(nfc.Apply("a\u0315\u0300\u05AE\u0300b") == "\u00E0\u05AE\u0300\u0315b");  // a line of NormalizationTest.txt
  CHECK_FALSE(nfc.MayChange("plain é 线程 🚀"));
  CHECK(nfc.MayChange("e\u0301"));
}

}  // namespace
}  // namespace hone::policy
