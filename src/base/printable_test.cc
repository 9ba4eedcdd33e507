#include "src/base/printable.h"

#include "gtest/gtest.h"

namespace stepcast {
namespace {

TEST(Printable, ShowsLettersAndEscapesWhatActs) {
  EXPECT_EQ(Printable("B\xc3\xa4r 7 \xe2\x9c\x93 \xf0\x9f\x98\x80"),
            "B\xc3\xa4r 7 \xe2\x9c\x93 \xf0\x9f\x98\x80");
  EXPECT_EQ(Printable("a\x1b[31mb\nc\td\x7f"), "a\\x1b[31mb\\nc\\td\\x7f");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");  // the one-character CSI
  EXPECT_EQ(Printable("\xe2\x80\xae"
                      "live"),
            "\\u202elive");  // right-to-left override
  EXPECT_EQ(Printable("\xe2\x81\xa6x\xe2\x81\xa9"), "\\u2066x\\u2069");
  EXPECT_EQ(Printable("\xff\xc0\xaf"), "\\xff\\xc0\\xaf");
  EXPECT_EQ(Printable(""), "");
}

TEST(Printable, LinesStay) {
  EXPECT_EQ(PrintableLines("a\x1b\nb\n"), "a\\x1b\nb\n");
  EXPECT_EQ(PrintableLines("\n\na"), "\n\na");
}

}  // namespace
}  // namespace stepcast
