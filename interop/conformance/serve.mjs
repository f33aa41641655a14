// Runs the everything-server of the conformance suite on a free port, which is printed as a URL.
import net from 'node:net';

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...options) {
  this.once('listening', () => console.log(`http://127.0.0.1:${this.address().port}/mcp`));
  return listen.apply(this, options);
};
process.env.PORT = '0';
await import('./everything-server.ts');
