// Digests of JSON bodies, computed with another language's JSON and SHA-256.
// Stored keys bear such digests: a changed one turns every retry across a
// roll-out into a mismatch. So none may ever change; a changed scheme gets a
// new name, and golden digests of its own.
#ifndef DEDUPE_TESTS_UNIT_CLIENT_GOLDEN_DIGESTS_H_
#define DEDUPE_TESTS_UNIT_CLIENT_GOLDEN_DIGESTS_H_

namespace dedupe::client {

struct GoldenDigest {
  const char* body;
  const char* digest;
};

inline constexpr char kGoldenOperation[] = "POST /v1/charges";

// Of FingerprintJson(kGoldenOperation, body), in hex.
inline constexpr GoldenDigest kGoldenJsonDigests[] = {
    {R"(1)",
     "f323e96c7b9288187e9477f3f4b6b07a1f4e93288bbfe9a921c76ed2a5df02af"},
    {R"(1.0)",
     "f323e96c7b9288187e9477f3f4b6b07a1f4e93288bbfe9a921c76ed2a5df02af"},
    {R"(1e0)",
     "f323e96c7b9288187e9477f3f4b6b07a1f4e93288bbfe9a921c76ed2a5df02af"},
    {R"(4.50)",
     "63cc99d6e1a59ee06d1e26f546bdda85794cd2044fcb4fd33178212b735717c9"},
    {R"(4.5)",
     "63cc99d6e1a59ee06d1e26f546bdda85794cd2044fcb4fd33178212b735717c9"},
    {R"(-0)",
     "530a8ae1b76db803b1e64140c03d170bd15d407a13d711389adc8e5c86ef51e2"},
    {R"(0)",
     "530a8ae1b76db803b1e64140c03d170bd15d407a13d711389adc8e5c86ef51e2"},
    {R"(1e20)",
     "3e769c4d79a947e8ccdfc5038aaa9a2eff92b1ae548c72c439444a0cd727ba7b"},
    {R"(100000000000000000000)",
     "3e769c4d79a947e8ccdfc5038aaa9a2eff92b1ae548c72c439444a0cd727ba7b"},
    {R"(1e21)",
     "1e1e3bc1bed602081adf4086352d17a6f37f4b0c8391f64a11f5a999f8c0f9d0"},
    {R"(1e-6)",
     "e227a7e51d2bb7c38437848eecba01a82eeeef44b2e03fce67e0c058b97ffe8e"},
    {R"(0.000001)",
     "e227a7e51d2bb7c38437848eecba01a82eeeef44b2e03fce67e0c058b97ffe8e"},
    {R"(1e-7)",
     "6c9773ceec8ee8caf82b6d90cac884cd5eb7694ab236da1b8737579f28cbb17b"},
    {R"("\u20ac")",
     "aa339d43f2c1c6298c7daeaa42aa975a2dfa8ea6bf7f1d68048501d362f1b760"},
    {R"("€")",
     "aa339d43f2c1c6298c7daeaa42aa975a2dfa8ea6bf7f1d68048501d362f1b760"},
    {R"("\/")",
     "3560f06726a888793bf734c5ae2b66b45a9680b8cf3fef35ed73f5335212d2cb"},
    {R"("/")",
     "3560f06726a888793bf734c5ae2b66b45a9680b8cf3fef35ed73f5335212d2cb"},
    {R"({})",
     "6ce52b4dc540df5747fb85850700472763efbb7e19d55e454b68bea2928dec73"},
    {R"([])",
     "1b6c965e0ecb373e8b6eb14ef5939821a219091b854ebe9aeb13cb104913b811"},
    {R"("")",
     "730c77c7366c412fb2ec5c412026038bff48b304b9726f1c6ee78f8a8e01ebc7"},
    {R"(null)",
     "3c8a6ff26f1ff93704f946766179b6492dbafa608ab7f17501eea37dc17ecb7f"},
    {R"([null])",
     "2d8747964a56d4f98472f15d9e45c752e8dabae562efa2543bc70b5ef5ab74ab"},
    {R"({"a":null})",
     "f75560a1877471a8d02a4118ead01babb8d1ccb368c463b510b5fbc12580eb6c"},
    {R"("\u00e9")",
     "836e658d864c46338917d0d6014bae4dbfce88a8f287584c952732426225a6f6"},
    {R"("é")",
     "836e658d864c46338917d0d6014bae4dbfce88a8f287584c952732426225a6f6"},
    {R"("e\u0301")",
     "29497961903c2fa9f0716c1bd2326c8bf2777bd3976332b6ae1241502b5a1b4d"},
    {R"(9007199254740991)",
     "c67c5c56b4dce539da93ddc65cfd95fc08c1b0562a8377747997008dc5e8455f"},
    {R"(9007199254740992)",
     "ba05e8d4b327e6ff371648decec1814d8c5365dc71e41f24fd9b575dfa914bcc"},
    {R"({"a":1,"b":{"x":1,"y":2}})",
     "dc8367217b1ad912bfb15359c703a346e7d4166fc58f605002a0cd78057efbd5"},
    {R"({"b":{"y":2,"x":1},"a":1})",
     "dc8367217b1ad912bfb15359c703a346e7d4166fc58f605002a0cd78057efbd5"},
};

}  // namespace dedupe::client

#endif  // DEDUPE_TESTS_UNIT_CLIENT_GOLDEN_DIGESTS_H_
