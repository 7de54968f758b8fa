// A Worker for pages that are read from disk, where browsers start none: its script runs in a hidden frame. The search
// of the documentation needs one; only what it uses is there (postMessage, onmessage, importScripts).
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source === this.inside) {
          const told = new MessageEvent("message", { data: event.data });
          this.dispatchEvent(told);
          if (this.onmessage) this.onmessage(told);
        }
      });
      this.ready = new Promise((done) => {
        this.inside.postMessage = (data) => window.dispatchEvent(
          new MessageEvent("message", { data, source: this.inside }));
        this.inside.importScripts = (...names) => names.reduce(
          (before, name) => before.then(() => this.load(new URL(name, address))), Promise.resolve());
        this.load(address).then(done);
      });
    }

    load(address) {
      return new Promise((done, failed) => {
        const script = this.inside.document.createElement("script");
        script.src = address;
        script.onload = done;
        script.onerror = failed;
        this.inside.document.body.appendChild(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {}
  };
}
