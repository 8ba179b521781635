#include <string>

#include "operator/kube/config.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = ddp::kube::ParseKubeconfig(text, "/nowhere/config");
  if (config) {
    DDP_CHECK(!config->server.empty(), "a server is named");
    (void)config->ToTransportOptions("fuzz");
  } else {
    DDP_CHECK(config.error().message.find("/nowhere/config") != std::string::npos,
              "an error names the file");
  }
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  return {
      "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n"
      "  context: {cluster: k, user: u, namespace: team}\nclusters:\n- name: k\n"
      "  cluster: {server: 'https://h:6443', certificate-authority-data: LS0tLS1CRUdJTiBY}\n"
      "users:\n- name: u\n  user: {token: abc}\n",
      R"({"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],)"
      R"("clusters":[{"name":"k","cluster":{"server":"http://h"}}],)"
      R"("users":[{"name":"u","user":{"exec":{},"client-certificate-data":"LS0tLS1CRUdJTiBY",)"
      R"("client-key":"k.pem"}}]})"};
}
