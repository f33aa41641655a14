// An OAuth 2.1 authorization server (oidc-provider): discovery, dynamic registration, PKCE, resource indicators, rotating refresh tokens, introspection.
//
// Whoever asks is logged in as `ada` and consents, so that no person is needed. `GET /browser?url=URL` acts as the browser: it follows the redirects of a login, and
// answers with the address to which the client is to be sent back.
//
// usage: node authorization_server.mjs --resource URL [--opaque]

import { createServer } from "node:http";
import { parseArgs } from "node:util";
import { generateKeyPair } from "node:crypto";
import { promisify } from "node:util";
import Provider from "oidc-provider";

const { values: asked } = parseArgs({ options: { resource: { type: "string" }, opaque: { type: "boolean", default: false } } });
const SCOPES = "tasks:read tasks:write tools:* resources:read";
const USER = "ada";
/** The tokens end soon, so that a client must refresh them. */
const TOKEN_SECONDS = 10;
/** More than a login has. */
const MOST_REDIRECTS = 20;

const server = createServer();
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const origin = `http://127.0.0.1:${server.address().port}`;

const { privateKey } = await promisify(generateKeyPair)("ec", { namedCurve: "P-256" });
const provider = new Provider(origin, {
  // For the resource server, which asks about tokens.
  clients: [{ client_id: "longhaul", client_secret: "the secret of longhaul", redirect_uris: [], grant_types: [], response_types: [] }],
  jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), alg: "ES256", use: "sig", kid: "the-key" }] },
  scopes: ["openid", "offline_access", ...SCOPES.split(" ")],
  clientDefaults: { id_token_signed_response_alg: "ES256" },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (_, client) => client.grantTypeAllowed("refresh_token"),
  findAccount: async (_, accountId) => ({ accountId, claims: async () => ({ sub: accountId }) }),
  interactions: { url: (_, { uid }) => `/consent/${uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    introspection: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: async () => true,
      getResourceServerInfo: async (_, resource) => {
        if (resource !== asked.resource) throw new Error(`${resource} is not ${asked.resource}`);
        const accessTokenFormat = asked.opaque ? "opaque" : "jwt";
        return { scope: SCOPES, audience: resource, accessTokenTTL: TOKEN_SECONDS, accessTokenFormat, jwt: { sign: { alg: "ES256" } } };
      },
    },
  },
});

/** Logs the user in, and consents to what is asked. */
async function consent(request, response) {
  const { prompt, params } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: USER } });
  }
  const grant = new provider.Grant({ accountId: USER, clientId: params.client_id });
  grant.addOIDCScope(`openid offline_access ${SCOPES}`);
  grant.addResourceScope(asked.resource, SCOPES);
  return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
}

/** Follows the redirects of a login with its cookies until they leave this server. */
async function browse(start) {
  const cookies = new Map();
  let url = new URL(start);
  for (let step = 0; url.origin === origin; step += 1) {
    if (step === MOST_REDIRECTS) throw new Error(`more than ${MOST_REDIRECTS} redirects`);
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(url, { redirect: "manual", headers: { cookie } });
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
      cookies.set(name, value);
    }
    const location = answer.headers.get("location");
    if (!location) throw new Error(`${url.pathname}: ${answer.status} ${await answer.text()}`);
    url = new URL(location, url);
  }
  return url.href;
}

const answered = provider.callback();
server.on("request", async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, origin);
  try {
    if (pathname.startsWith("/consent/")) return await consent(request, response);
    if (pathname === "/browser") return response.end(await browse(searchParams.get("url")));
    return answered(request, response);
  } catch (error) {
    response.writeHead(500).end(String(error?.error_description ?? error));
  }
});
console.log(`${origin}/`);
