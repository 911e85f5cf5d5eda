/** Two discs in colours and positions derived from the address, to tell addresses apart at a glance. */
export const Avatar = ({ address, size = 36 }: { address: string; size?: number }) => {
  const byte = (index: number) => Number.parseInt(address.slice(2 + index * 2, 4 + index * 2), 16) || 0;
  const hue = (byte(3) / 255) * 360;
  const angle = (byte(7) / 255) * Math.PI * 2;
  const [x, y] = [20 + Math.cos(angle) * 9, 20 + Math.sin(angle) * 9];
  return (
    <svg class="avatar" viewBox="0 0 40 40" width={size} height={size} aria-hidden="true">
      <rect width="40" height="40" fill={`hsl(${hue} 42% 62%)`} />
      <circle cx={x} cy={y} r={9 + (byte(11) / 255) * 7} fill={`hsl(${hue + 40 + byte(15) / 2} 55% 78%)`} />
      <circle cx={40 - x} cy={40 - y} r={4 + (byte(17) / 255) * 5} fill={`hsl(${hue + 200} 40% 38%)`} />
    </svg>
  );
};
