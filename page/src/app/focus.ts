// Where the keyboard is: given back by what closes, and never lost with what goes away.
import { useEffect, useState } from "preact/hooks";

const WAIT_MILLISECONDS = 150;

const home = (): HTMLElement | null =>
  document.querySelector<HTMLElement>("#panel:not([hidden])") ?? document.getElementById("view-title") ?? document.getElementById("view");

/** What has the focus when this opens has it again once it closes, or what was put in its place. */
export function useReturnedFocus(): void {
  const [opener] = useState(() => document.activeElement as HTMLElement);
  const [words] = useState(() => opener.textContent);
  useEffect(() => () => {
    requestAnimationFrame(() => {
      if (opener === document.body || document.activeElement !== document.body) return;
      const twin = [...document.querySelectorAll<HTMLElement>("button,a")].find((one) => one.textContent === words);
      (opener.isConnected ? opener : twin ?? home())?.focus();
    });
  }, []);
}

/** Who was at something that is gone is at the head of the view, not nowhere. */
export function useKeptFocus(): void {
  useEffect(() => {
    let last: Element | null = null;
    const remember = (event: FocusEvent): void => { last = event.target as Element; };
    const observer = new MutationObserver(() => {
      if (!last || last.isConnected) return;
      last = null;
      // What closes gives the focus back itself, and sooner.
      window.setTimeout(() => { if (document.activeElement === document.body) home()?.focus({ preventScroll: true }); }, WAIT_MILLISECONDS);
    });
    document.addEventListener("focusin", remember);
    observer.observe(document.body, { childList: true, subtree: true });
    return () => { document.removeEventListener("focusin", remember); observer.disconnect(); };
  }, []);
}
