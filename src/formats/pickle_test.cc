#include "src/formats/pickle.h"

#include <limits>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::formats {
namespace {

// {'a': [1, -2, 70000, 3.5, None, True, (1, 2)], 'b': {'c': 'text'}, 'big': 2**40,
//  'neg': -2**40, 'huge': 2**80}, and under 'x' and 'y' one list, [1]; by Python's pickle.dumps.
constexpr char kProtocol2[] =
    "\x80\x02\x7d\x71\x00\x28\x58\x01\x00\x00\x00\x61\x71\x01\x5d\x71\x02\x28\x4b\x01\x4a\xfe\xff"
    "\xff"
    "\xff\x4a\x70\x11\x01\x00\x47\x40\x0c\x00\x00\x00\x00\x00\x00\x4e\x88\x4b\x01\x4b\x02\x86\x71"
    "\x03"
    "\x65\x58\x01\x00\x00\x00\x62\x71\x04\x7d\x71\x05\x58\x01\x00\x00\x00\x63\x71\x06\x58\x04\x00"
    "\x00"
    "\x00\x74\x65\x78\x74\x71\x07\x73\x58\x03\x00\x00\x00\x62\x69\x67\x71\x08\x8a\x06\x00\x00\x00"
    "\x00"
    "\x00\x01\x58\x03\x00\x00\x00\x6e\x65\x67\x71\x09\x8a\x06\x00\x00\x00\x00\x00\xff\x58\x04\x00"
    "\x00"
    "\x00\x68\x75\x67\x65\x71\x0a\x8a\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x58\x01\x00"
    "\x00"
    "\x00\x78\x71\x0b\x5d\x71\x0c\x4b\x01\x61\x58\x01\x00\x00\x00\x79\x71\x0d\x68\x0c\x75\x2e";
constexpr char kProtocol4[] =
    "\x80\x04\x95\x7b\x00\x00\x00\x00\x00\x00\x00\x7d\x94\x28\x8c\x01\x61\x94\x5d\x94\x28\x4b\x01"
    "\x4a"
    "\xfe\xff\xff\xff\x4a\x70\x11\x01\x00\x47\x40\x0c\x00\x00\x00\x00\x00\x00\x4e\x88\x4b\x01\x4b"
    "\x02"
    "\x86\x94\x65\x8c\x01\x62\x94\x7d\x94\x8c\x01\x63\x94\x8c\x04\x74\x65\x78\x74\x94\x73\x8c\x03"
    "\x62"
    "\x69\x67\x94\x8a\x06\x00\x00\x00\x00\x00\x01\x8c\x03\x6e\x65\x67\x94\x8a\x06\x00\x00\x00\x00"
    "\x00"
    "\xff\x8c\x04\x68\x75\x67\x65\x94\x8a\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x8c\x01"
    "\x78"
    "\x94\x5d\x94\x4b\x01\x61\x8c\x01\x79\x94\x68\x0c\x75\x2e";
constexpr char kCall[] =
    "\x80\x04\x95\x30\x00\x00\x00\x00\x00\x00\x00\x7d\x94\x8c\x08\x73\x65\x67\x6d\x65\x6e\x74\x73"
    "\x94"
    "\x5d\x94\x8c\x05\x70\x6f\x73\x69\x78\x94\x8c\x06\x73\x79\x73\x74\x65\x6d\x94\x93\x94\x8c\x04"
    "\x65"
    "\x63\x68\x6f\x94\x85\x94\x52\x94\x61\x73\x2e";
constexpr char kCall2[] =
    "\x80\x02\x7d\x71\x00\x58\x08\x00\x00\x00\x73\x65\x67\x6d\x65\x6e\x74\x73\x71\x01\x5d\x71\x02"
    "\x63"
    "\x70\x6f\x73\x69\x78\x0a\x73\x79\x73\x74\x65\x6d\x0a\x71\x03\x58\x04\x00\x00\x00\x65\x63\x68"
    "\x6f"
    "\x71\x04\x85\x71\x05\x52\x71\x06\x61\x73\x2e";

template <std::size_t N>
std::string_view Text(const char (&literal)[N]) {
  return {literal, N - 1};
}

std::string CodeOf(std::string_view bytes) {
  const auto pickle = ParsePickle(bytes, "a.pickle");
  return pickle ? "none" : pickle.error().front().code;
}

TEST(Pickle, ReadsPlainData) {
  for (const std::string_view bytes : {Text(kProtocol2), Text(kProtocol4)}) {
    const auto pickle = ParsePickle(bytes, "a.pickle");
    ASSERT_TRUE(pickle.has_value()) << Format(pickle.error());
    const PickleValue& root = pickle->root();
    const PickleValue& list = *root.Find("a");
    ASSERT_EQ(list.items.size(), 7U);
    EXPECT_EQ(list.items[0]->IntegerOr(0), 1);
    EXPECT_EQ(list.items[1]->IntegerOr(0), -2);
    EXPECT_EQ(list.items[2]->IntegerOr(0), 70'000);
    EXPECT_EQ(list.items[3]->real, 3.5);
    EXPECT_EQ(list.items[4]->kind, PickleValue::Kind::kNone);
    EXPECT_EQ(list.items[5]->IntegerOr(0), 1);
    EXPECT_EQ(list.items[6]->items.size(), 2U);
    EXPECT_EQ(root.Find("b")->Find("c")->text, "text");
    EXPECT_EQ(root.Find("big")->IntegerOr(0), std::int64_t{1} << 40);
    EXPECT_EQ(root.Find("neg")->IntegerOr(0), -(std::int64_t{1} << 40));
    EXPECT_EQ(root.Find("huge")->IntegerOr(0), std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(root.Find("x"), root.Find("y"));
    EXPECT_EQ(root.Find("z"), nullptr);
  }
}

// A malicious file that calls os.system('echo').
TEST(Pickle, ExecutesNothing) {
  EXPECT_EQ(CodeOf(Text(kCall)), "pickle.not-data");
  EXPECT_EQ(CodeOf(Text(kCall2)), "pickle.not-data");
}

TEST(Pickle, EveryCutIsSaid) {
  const std::string_view whole = Text(kProtocol4);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(CodeOf(whole.substr(0, length)), "pickle.cut-off") << length;
  }
}

TEST(Pickle, IsBounded) {
  EXPECT_EQ(CodeOf("\x80\x04" + std::string(5'000'001, 'N') + "."), "pickle.too-large");
  // Memo numbers are consecutive; Python counts them from 0 or 1.
  EXPECT_EQ(CodeOf("\x80\x02Nq\x01h\x01\x86."), "none");
  EXPECT_EQ(CodeOf("\x80\x02Nq\x02h\x02\x86."), "pickle.malformed");
  EXPECT_EQ(CodeOf("\x80\x02Nq\x01h\x02\x86."), "pickle.malformed");
}

// No bytes cause a crash or an endless loop.
RC_GTEST_PROP(Pickle, AnyBytesAreReadOrRefused, (std::string bytes)) {
  const auto pickle = ParsePickle("\x80\x04" + bytes + ".", "a.pickle");
  RC_ASSERT(pickle.has_value() || pickle.error().size() == 1U);
}
RC_GTEST_PROP(Pickle, ChangedBytesAreReadOrRefused, ()) {
  std::string bytes(Text(kProtocol4));
  const int changes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < changes; ++i) {
    bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
  }
  const auto pickle = ParsePickle(bytes, "a.pickle");
  RC_ASSERT(pickle.has_value() || pickle.error().size() == 1U);
}

}  // namespace
}  // namespace stepcast::formats
