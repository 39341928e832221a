/* Browsers start no worker on a page that was opened from a file, so the search runs in a hidden
   frame there. Material would load such a stand-in from the net; this site loads nothing. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = (this.inside = frame.contentWindow);
      inside.postMessage = (data) => this.tell(this, data);
      const script = inside.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        const waiting = this.waiting;
        this.waiting = null;
        for (const data of waiting) this.tell(inside, data);
      });
      inside.document.body.appendChild(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.tell(this.inside, data);
    }

    tell(target, data) {
      const event = new MessageEvent("message", { data });
      target.dispatchEvent(event);
      if (typeof target.onmessage === "function" && target === this) target.onmessage(event);
    }

    terminate() {}
  };
}
