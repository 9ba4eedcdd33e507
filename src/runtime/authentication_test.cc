#include "src/runtime/authentication.h"

#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace stepcast::runtime {
namespace {

std::string Hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// RFC 4231, test cases 1, 2 and 6.
TEST(AuthenticationCode, IsHmacSha256) {
  EXPECT_EQ(Hex(AuthenticationCode(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(AuthenticationCode("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Hex(AuthenticationCode(std::string(131, '\xaa'),
                                   "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(IsAuthentic, TakesTheRightCodeAlone) {
  const std::string code = AuthenticationCode("secret", "message");
  EXPECT_TRUE(IsAuthentic("secret", "message", code));
  EXPECT_FALSE(IsAuthentic("secret", "massage", code));
  EXPECT_FALSE(IsAuthentic("Secret", "message", code));
  EXPECT_FALSE(IsAuthentic("secret", "message", code.substr(1)));
  EXPECT_FALSE(IsAuthentic("secret", "message", ""));
}

TEST(RandomBytes, AreNotTheSame) {
  EXPECT_EQ(RandomBytes(32).size(), 32u);
  EXPECT_NE(RandomBytes(32), RandomBytes(32));
}

}  // namespace
}  // namespace stepcast::runtime
