#include "operator/kube/config.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "operator/json/json.h"
#include "operator/kube/exec_token.h"

namespace ddp::kube {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using json::Json;

// What a kubeconfig may hold and this client would silently get wrong.
struct Unsupported {
  const char* key;
  const char* what;
};
constexpr Unsupported kClusterUnsupported[] = {
    {"insecure-skip-tls-verify",
     "the server's certificate is always checked: give certificate-authority instead"},
    {"proxy-url", "proxies are not supported"},
    {"tls-server-name", "the certificate must name the host in 'server'"},
};
constexpr Unsupported kUserUnsupported[] = {
    {"auth-provider", "auth providers are not supported: use a token or client certificates"},
    {"username", "passwords are not supported: use a token or client certificates"},
    {"as", "impersonation is not supported"},
};

Result<std::string> DecodeBase64(const std::string& text) {
  const std::unique_ptr<EVP_ENCODE_CTX, decltype(&EVP_ENCODE_CTX_free)> context(
      EVP_ENCODE_CTX_new(), &EVP_ENCODE_CTX_free);
  std::string out(text.size() / 4 * 3 + 3, '\0');
  auto* data = reinterpret_cast<unsigned char*>(out.data());
  int size = 0;
  int tail = 0;
  EVP_DecodeInit(context.get());
  if (EVP_DecodeUpdate(context.get(), data, &size,
                       reinterpret_cast<const unsigned char*>(text.data()),
                       static_cast<int>(text.size())) < 0 ||
      EVP_DecodeFinal(context.get(), data + size, &tail) < 0) {
    return Error{ErrorCode::kInvalid, "is not base64"};
  }
  out.resize(static_cast<size_t>(size) + static_cast<size_t>(tail));
  return out;
}

// One kubeconfig file while it is read: knows its place for messages and relative paths.
class Kubeconfig {
 public:
  Kubeconfig(std::string path, Json root, std::string context)
      : path_(std::move(path)), root_(std::move(root)), context_(std::move(context)) {}

  Result<ClusterConfig> Load() const {
    const std::string context_name =
        context_.empty() ? json::GetString(root_, {"current-context"}) : context_;
    if (context_name.empty()) {
      return Bad("current-context", "is missing: choose one with `kubectl config use-context`");
    }
    auto context = Named("contexts", "context", context_name);
    if (!context) {
      return context.error();
    }
    auto cluster = Named("clusters", "cluster", json::GetString(**context, {"cluster"}));
    if (!cluster) {
      return cluster.error();
    }
    ClusterConfig config;
    config.default_namespace = json::GetString(**context, {"namespace"}, "default");
    if (auto done = LoadCluster(**cluster, config); !done) {
      return done.error();
    }
    const std::string user_name = json::GetString(**context, {"user"});
    if (!user_name.empty()) {
      auto user = Named("users", "user", user_name);
      if (!user) {
        return user.error();
      }
      if (auto done = LoadUser(**user, **cluster, config); !done) {
        return done.error();
      }
    }
    return config;
  }

 private:
  Error Bad(std::string_view key, std::string_view what) const {
    return {ErrorCode::kInvalid, fmt::format("kubeconfig {}: '{}' {}", path_, key, what)};
  }

  Result<const Json*> Named(const char* list, const char* key, const std::string& name) const {
    const Json* items = json::Find(root_, {list});
    if (items != nullptr && items->is_array()) {
      for (const Json& item : *items) {
        if (json::GetString(item, {"name"}) == name) {
          const Json* value = json::Find(item, {key});
          if (value != nullptr && value->is_object()) {
            return value;
          }
        }
      }
    }
    return Bad(list, fmt::format("has no entry named '{}' with a '{}'", name, key));
  }

  template <size_t N>
  Result<base::Done> Refuse(const Json& object, const Unsupported (&table)[N]) const {
    for (const Unsupported& row : table) {
      const Json* value = json::Find(object, {row.key});
      const bool unset = value == nullptr || *value == false ||
                         (value->is_string() && value->get_ref<const std::string&>().empty());
      if (!unset) {
        return Bad(row.key, fmt::format("cannot be used: {}", row.what));
      }
    }
    return base::Done{};
  }

  Result<base::Done> LoadCluster(const Json& cluster, ClusterConfig& config) const {
    if (auto done = Refuse(cluster, kClusterUnsupported); !done) {
      return done;
    }
    config.server = json::GetString(cluster, {"server"});
    if (config.server.empty()) {
      return Bad("server", "is missing in the cluster");
    }
    return LoadPem(cluster, "certificate-authority", config.ca);
  }

  Result<base::Done> LoadUser(const Json& user, const Json& cluster, ClusterConfig& config) const {
    if (auto done = Refuse(user, kUserUnsupported); !done) {
      return done;
    }
    if (auto done = LoadPem(user, "client-certificate", config.client_certificate); !done) {
      return done;
    }
    if (auto done = LoadPem(user, "client-key", config.client_key); !done) {
      return done;
    }
    if (config.client_certificate.empty() != config.client_key.empty()) {
      return Bad("client-certificate", "and 'client-key' must be given together");
    }
    const std::string token_file = json::GetString(user, {"tokenFile"});
    const std::string token = json::GetString(user, {"token"});
    if (!token_file.empty()) {
      if (!std::filesystem::exists(Resolve(token_file))) {
        return Bad("tokenFile", fmt::format("names {}, which is not there", Resolve(token_file)));
      }
      config.token = std::make_shared<TokenFile>(Resolve(token_file));
    } else if (!token.empty()) {
      config.token = std::make_shared<StaticToken>(token);
    } else if (const Json* plugin = json::Find(user, {"exec"}); plugin != nullptr) {
      return LoadPlugin(*plugin, cluster, config);
    }
    return base::Done{};
  }

  // Nothing is run here: the program is asked when the first request goes out.
  Result<base::Done> LoadPlugin(const Json& plugin, const Json& cluster,
                                ClusterConfig& config) const {
    ExecToken::Options options;
    options.api_version = json::GetString(plugin, {"apiVersion"});
    if (options.api_version != "client.authentication.k8s.io/v1" &&
        options.api_version != "client.authentication.k8s.io/v1beta1") {
      return Bad("exec.apiVersion", "must be client.authentication.k8s.io/v1 or v1beta1");
    }
    const std::string program = json::GetString(plugin, {"command"});
    if (program.empty()) {
      return Bad("exec.command", "is missing: the program that gets the token");
    }
    // A path counts from the file, as in kubectl; a bare name is looked for in $PATH.
    options.command = {program.find('/') == std::string::npos ? program : Resolve(program)};
    for (const Json& word : ListAt(plugin, "args")) {
      if (!word.is_string()) {
        return Bad("exec.args", "must be a list of texts");
      }
      options.command.push_back(word.get<std::string>());
    }
    for (const Json& variable : ListAt(plugin, "env")) {
      options.environment.emplace_back(json::GetString(variable, {"name"}),
                                       json::GetString(variable, {"value"}));
    }
    options.interactive =
        json::GetString(plugin, {"interactiveMode"}, "IfAvailable") != "Never" && isatty(0) == 1;
    if (json::GetBool(plugin, {"provideClusterInfo"})) {
      options.cluster = {{"server", config.server}};
      if (const Json* ca = json::Find(cluster, {"certificate-authority-data"}); ca != nullptr) {
        options.cluster["certificate-authority-data"] = *ca;
      }
    }
    options.install_hint = json::GetString(plugin, {"installHint"});
    config.token = std::make_shared<ExecToken>(std::move(options));
    return base::Done{};
  }

  static const Json& ListAt(const Json& object, const char* key) {
    static const Json none = Json::array();
    const Json* list = json::Find(object, {key});
    return list != nullptr && list->is_array() ? *list : none;
  }

  Result<base::Done> LoadPem(const Json& object, const std::string& key, Pem& pem) const {
    const std::string data_key = key + "-data";
    const std::string data = json::GetString(object, {data_key});
    if (!data.empty()) {
      auto text = DecodeBase64(data);
      if (!text || text->find("-----BEGIN") == std::string::npos) {
        return Bad(data_key, "is not base64 of a PEM text");
      }
      pem.text = *std::move(text);
      return base::Done{};
    }
    const std::string file = json::GetString(object, {key});
    if (!file.empty()) {
      pem.file = Resolve(file);
      if (!std::filesystem::is_regular_file(pem.file)) {
        return Bad(key, fmt::format("names {}, which is not there", pem.file));
      }
    }
    return base::Done{};
  }

  std::string Resolve(const std::string& file) const {
    return (std::filesystem::path(path_).parent_path() / file).string();
  }

  const std::string path_;
  const Json root_;
  const std::string context_;
};

}  // namespace

TransportOptions ClusterConfig::ToTransportOptions(std::string user_agent) const {
  TransportOptions options;
  options.server = server;
  options.ca = ca;
  options.client_certificate = client_certificate;
  options.client_key = client_key;
  options.user_agent = std::move(user_agent);
  return options;
}

Result<ClusterConfig> LoadKubeconfig(const std::string& path, const std::string& context) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return Error{ErrorCode::kNotFound, fmt::format("kubeconfig {}: cannot be read", path)};
  }
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return ParseKubeconfig(text, path, context);
}

Result<ClusterConfig> ParseKubeconfig(const std::string& text, const std::string& path,
                                      const std::string& context) {
  auto documents = json::ParseYaml(text);
  if (!documents) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("kubeconfig {}: {}", path, documents.error().message)};
  }
  if (documents->size() != 1 || !documents->front().is_object()) {
    return Error{ErrorCode::kInvalid, fmt::format("kubeconfig {}: is not one YAML map", path)};
  }
  return Kubeconfig(path, std::move(documents->front()), context).Load();
}

Result<ClusterConfig> LoadInCluster(const Getenv& env, const std::string& root) {
  const char* host = env("KUBERNETES_SERVICE_HOST");
  const char* port = env("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr) {
    return Error{ErrorCode::kNotFound,
                 "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"};
  }
  ClusterConfig config;
  // The HTTP library cannot dial an IPv6 literal; the service's DNS name is in the certificate too.
  const bool ipv6 = std::string_view(host).find(':') != std::string_view::npos;
  config.server = fmt::format("https://{}:{}", ipv6 ? "kubernetes.default.svc" : host, port);
  config.ca.file = root + "/ca.crt";
  const std::string token = root + "/token";
  for (const std::string& file : {config.ca.file, token}) {
    if (!std::filesystem::exists(file)) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("in a pod, but {} is not there: does the pod set "
                               "automountServiceAccountToken: false?",
                               file)};
    }
  }
  config.token = std::make_shared<TokenFile>(token);
  std::ifstream in(root + "/namespace");
  std::getline(in, config.default_namespace);
  if (config.default_namespace.empty()) {
    config.default_namespace = "default";
  }
  return config;
}

Result<ClusterConfig> LoadConfig(const std::string& kubeconfig_flag, const Getenv& env,
                                 const std::string& context) {
  if (!kubeconfig_flag.empty()) {
    return LoadKubeconfig(kubeconfig_flag, context);
  }
  const char* variable = env("KUBECONFIG");
  if (variable != nullptr && *variable != '\0') {
    if (std::string_view(variable).find(':') != std::string_view::npos) {
      return Error{ErrorCode::kInvalid,
                   fmt::format("KUBECONFIG='{}' lists several files: merging them is not "
                               "supported, name one with --kubeconfig",
                               variable)};
    }
    return LoadKubeconfig(variable, context);
  }
  if (context.empty() && env("KUBERNETES_SERVICE_HOST") != nullptr) {
    return LoadInCluster(env);
  }
  const char* home = env("HOME");
  const std::string path = std::string(home != nullptr ? home : "") + "/.kube/config";
  if (home != nullptr && std::filesystem::exists(path)) {
    return LoadKubeconfig(path, context);
  }
  return Error{
      ErrorCode::kNotFound,
      "no cluster to talk to: give --kubeconfig FILE or set KUBECONFIG (outside of a pod)"};
}

std::vector<std::string> ListContexts(const std::string& kubeconfig_flag, const Getenv& env) {
  std::string path = kubeconfig_flag;
  if (const char* variable = env("KUBECONFIG"); path.empty() && variable != nullptr) {
    path = variable;
  }
  if (const char* home = env("HOME"); path.empty() && home != nullptr) {
    path = std::string(home) + "/.kube/config";
  }
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto documents = json::ParseYaml(text);
  std::vector<std::string> names;
  if (!documents || documents->empty()) {
    return names;
  }
  const Json* contexts = json::Find(documents->front(), {"contexts"});
  if (contexts != nullptr && contexts->is_array()) {
    for (const Json& context : *contexts) {
      names.push_back(json::GetString(context, {"name"}));
    }
  }
  return names;
}

}  // namespace ddp::kube
