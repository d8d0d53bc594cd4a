// A provider of OpenID Connect for tests: oidc-provider as it is, with its own pages for login and consent.
// Arguments: the redirect address of the client, and its secret (none: a public client). Prints its issuer.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const [redirect, secret] = process.argv.slice(2);
const server = createServer((request, answer) => handle(request, answer));
let handle;
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const client = secret
    ? { client_secret: secret }
    : { token_endpoint_auth_method: "none" };
  const provider = new Provider(issuer, {
    clients: [{ client_id: "perdure", redirect_uris: [redirect], response_types: ["code"], grant_types: ["authorization_code"], ...client }],
    pkce: { required: () => true },
    cookies: { keys: ["one key of a test"] },
  });
  handle = provider.callback();
  console.log(issuer);
});
